package survive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lwio/integration/internal/supervise"
)

// The tree that is copied: small files, which take few round trips, and some that are copied in parts.
const (
	copiedDirs  = 6
	copiedFiles = 12 // of each directory
	smallFile   = 40 << 10
	largeFile   = 3 << 20
)

// copyTime bounds one copy, with the kills of its server.
const copyTime = 5 * time.Minute

// makeTree makes a tree of random files, and returns their contents by their paths.
func makeTree(t *testing.T, root string) map[string]string {
	t.Helper()
	content := rand.NewChaCha8([32]byte{1})
	files := make(map[string]string)
	for d := range copiedDirs {
		dir := filepath.Join(fmt.Sprint("d", d/2), fmt.Sprint("e", d))
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
		for i := range copiedFiles {
			size := rand.IntN(smallFile)
			if i%6 == 5 {
				size = rand.IntN(largeFile)
			}
			p := make([]byte, size)
			_, _ = content.Read(p) // it never fails
			name := filepath.Join(dir, fmt.Sprint("f", i))
			if err := os.WriteFile(filepath.Join(root, name), p, 0o600); err != nil {
				t.Fatal(err)
			}
			files[name] = string(p)
		}
	}
	return files
}

// readTree returns the contents of the files of a tree by their paths.
func readTree(root string) (map[string]string, error) {
	files := make(map[string]string)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		p, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		files[name] = string(p)
		return err
	})
	return files, err
}

// startCopy starts 'lwio cp -r --verify' of a tree to the share. The end of the process goes to the channel.
func startCopy(t *testing.T, s *supervise.Server, transport, tree, to string) (ended <-chan error) {
	t.Helper()
	u, err := url.Parse(s.URL(transport))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), copyTime)
	out := new(bytes.Buffer)
	cmd := exec.CommandContext(ctx, lwioBin, "cp", "-r", "--verify", "--timeout", copyTime.String(), tree, u.JoinPath(to).String())
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	end := make(chan error, 1)
	go func() {
		defer cancel()
		err := cmd.Wait()
		if err != nil {
			err = fmt.Errorf("cp over %s: %w\n%s", transport, err, out)
		}
		end <- err
	}()
	return end
}

// killsInARow is the number of kills after which a copy may finish the files that it has begun: cp repeats one write at
// most 8 times.
const killsInARow = 6

// unfinished returns the names of the unfinished files of a tree that changes.
func unfinished(root string) map[string]bool {
	names := make(map[string]bool)
	_ = filepath.WalkDir(root, func(path string, _ fs.DirEntry, _ error) error { // names that are gone are no error
		if strings.HasSuffix(path, ".part") {
			names[path] = true
		}
		return nil
	})
	return names
}

// copyUnderKills copies a tree, and kills the server meanwhile, at most so many times. It returns the number of kills.
func copyUnderKills(t *testing.T, s *supervise.Server, transport, tree, name string, most int) (killed int) {
	t.Helper()
	ended, copied := startCopy(t, s, transport, tree, name), filepath.Join(s.Dir(), name)
	awaited := make(map[string]bool) // these files are finished before the next kill
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("%s, after %d kills: %v", name, killed, err)
			}
			return killed
		case <-time.After(rand.N(mostDelay)):
		}
		if _, err := os.Stat(copied); err != nil {
			continue // it has not connected yet
		}
		if len(awaited) > 0 {
			now := unfinished(copied)
			maps.DeleteFunc(awaited, func(name string, _ bool) bool { return !now[name] })
		}
		if killed == most || len(awaited) > 0 {
			continue
		}
		if err := errors.Join(s.Kill(), s.Start()); err != nil {
			t.Fatal(err)
		}
		if killed++; killed%killsInARow == 0 {
			awaited = unfinished(copied)
		}
	}
}

// TestCopyOfTreeOutlivesKills kills the server while 'lwio cp -r --verify' copies a tree to it, over each transport. Each copy
// succeeds and has all files as they are, and no unfinished file is left.
//
// Source: [OP-42], [OP-92f]
func TestCopyOfTreeOutlivesKills(t *testing.T) {
	tree, dir := filepath.Join(t.TempDir(), "tree"), t.TempDir()
	want := makeTree(t, tree)
	s := serve(t, dir, stateFlags(t, true)...)
	for _, transport := range transports {
		copies := 0
		for killed, quota := 0, max(1, *kills/len(transports)); killed < quota; copies++ {
			name := fmt.Sprint(transport, copies)
			killed += copyUnderKills(t, s, transport, tree, name, quota-killed)
			got, err := readTree(filepath.Join(dir, name))
			if err != nil || !maps.Equal(got, want) {
				t.Fatalf("%s has %d files, want %d, or other contents: %v", name, len(got), len(want), err)
			}
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%s: %d copies of %d files", transport, copies, len(want))
	}
	expectNothingLeft(t, s)
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("%d names are left: %v", len(list), err)
	}
}
