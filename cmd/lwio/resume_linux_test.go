package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// resumedSize is the size of the files whose copies are killed, and resumedPart the part of it that is copied
// before, in bytes.
const (
	resumedSize = 3*resumeWindow + 12345
	resumedPart = 2*resumeWindow + 2*chunkSize
)

// randomFile makes a file of random bytes.
func randomFile(t *testing.T, size int, elem ...string) []byte {
	t.Helper()
	b := randomBytes(size)
	write(t, b, elem...)
	return b
}

// startCopy starts 'lwio cp' as a process.
func startCopy(t *testing.T, args ...string) (cmd *exec.Cmd, stderr *lockedBuffer) {
	t.Helper()
	stderr = new(lockedBuffer)
	cmd = exec.Command(os.Args[0], append([]string{"cp"}, args...)...)
	cmd.Env, cmd.Stderr = append(os.Environ(), asCommand+"=1"), stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, stderr
}

// parts returns the names of the unfinished copies in a directory.
func parts(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, ".lwio-*.part"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// killCopy starts a copy, kills it in its middle, and returns its unfinished copy in a directory. A copy that
// ends before that is removed, and started again.
func killCopy(t *testing.T, dir string, args ...string) string {
	t.Helper()
	for range 20 {
		cmd, stderr := startCopy(t, args...)
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		part, err := partOf(t, dir, done)
		if part != "" {
			_ = cmd.Process.Kill()
			<-done // which reports the kill
			if len(parts(t, dir)) == 1 {
				return part
			}
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, stderr.String())
		}
		if err := os.Remove(filepath.Join(dir, "f")); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the copies end too early")
	return ""
}

// partOf waits for the middle of a copy, and returns its unfinished copy, or the end of its process.
func partOf(t *testing.T, dir string, done <-chan error) (part string, err error) {
	t.Helper()
	for {
		for _, name := range parts(t, dir) {
			if fi, err := os.Stat(name); err == nil && fi.Size() >= resumedPart && fi.Size() < resumedSize {
				return name, nil
			}
		}
		select {
		case err := <-done:
			return "", err
		case <-time.After(time.Millisecond):
		}
	}
}

// damage changes a byte of a file.
func damage(t *testing.T, name string, off int64) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	_, err = f.ReadAt(b, off)
	b[0] ^= 0xFF
	if err == nil {
		_, err = f.WriteAt(b, off)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// wantCopy checks a copy, and that no unfinished one is left. A byte at an offset that is not negative
// differs.
func wantCopy(t *testing.T, want []byte, different int64, elem ...string) {
	t.Helper()
	name := filepath.Join(elem...)
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if different >= 0 {
		got[different] ^= 0xFF
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes differ from the source of %d", name, len(got), len(want))
	}
	if left := parts(t, filepath.Dir(name)); len(left) != 0 {
		t.Errorf("%q are left", left)
	}
}

// resumption is one way to copy a file of which a copy was killed.
type resumption struct {
	t             *testing.T
	data          []byte // of the source
	from, to, dir string // dir has the copy, f
}

// killed returns the unfinished copy, in which a byte is changed.
func (r *resumption) killed(at func(size int64) int64) {
	r.t.Helper()
	part := killCopy(r.t, r.dir, "--resume", r.from, r.to)
	fi, err := os.Stat(part)
	if err != nil {
		r.t.Fatal(err)
	}
	damage(r.t, part, at(fi.Size()))
}

// resumed goes on with the copy, and removes it.
func (r *resumption) resumed(different int64, flags ...string) {
	r.t.Helper()
	run(r.t, exitOK, append(append([]string{"cp", "--resume"}, flags...), r.from, r.to)...)
	wantCopy(r.t, r.data, different, r.dir, "f")
	if err := os.Remove(filepath.Join(r.dir, "f")); err != nil {
		r.t.Fatal(err)
	}
}

// A copy that was killed goes on where it was, up and down: bytes before the last window are not copied again.
// The last window is compared, and --verify compares everything. A copy with a difference begins anew.
func TestKilledCopyIsResumed(t *testing.T) {
	t.Parallel()
	s, url := newStateServer(t, "--byte-rate", "60m", "--byte-burst", "2m") // so slow that a copy can be killed
	served, local := filepath.Join(s.dir, "data"), t.TempDir()
	up, down := randomFile(t, resumedSize, local, "f"), randomFile(t, resumedSize, served, "source")
	for way, r := range map[string]*resumption{
		"up":   {data: up, from: filepath.Join(local, "f"), to: url + "/f", dir: served},
		"down": {data: down, from: url + "/source?provider=smb", to: filepath.Join(local, "down", "f"), dir: filepath.Join(local, "down")},
	} {
		t.Run(way, func(t *testing.T) {
			r.t = t
			if err := os.MkdirAll(r.dir, 0o755); err != nil {
				t.Fatal(err)
			}
			first := func(int64) int64 { return 1 }
			r.killed(first)
			r.resumed(1) // the first bytes were not copied again
			if way == "down" {
				return
			}
			r.killed(first)
			if got := run(t, exitFailure, "cp", "--resume", "--verify", r.from, r.to); !strings.Contains(got.err, errDiffers.Error()) {
				t.Errorf("%q", got.err)
			}
			r.resumed(-1, "--verify")
			r.killed(func(size int64) int64 { return (size-resumeWindow)/chunkSize*chunkSize - 1 })
			r.resumed(-1)
		})
	}
}

// A source that has changed is copied from the beginning, and files that are copied already are not copied
// again, unless --verify finds a difference.
func TestResumedTreeCopiesTheRest(t *testing.T) {
	s := startServer(t, t.TempDir())
	src := t.TempDir()
	for i := range 5 {
		randomFile(t, 1000+i, src, "d", fmt.Sprint(i))
	}
	run(t, exitOK, "cp", "-r", "--resume", src+"/d", s.url)
	damage(t, filepath.Join(s.dir, "d", "1"), 7)
	randomFile(t, 2000, src, "d", "2") // another size
	later := time.Now().Add(time.Hour)
	damage(t, filepath.Join(src, "d", "3"), 9) // and a later time
	if err := errors.Join(os.Chtimes(filepath.Join(src, "d", "3"), later, later), os.Remove(filepath.Join(s.dir, "d", "4"))); err != nil {
		t.Fatal(err)
	}
	run(t, exitOK, "cp", "-r", "--resume", src+"/d", s.url)
	wantSame(t, src, s.dir, "d/0", "d/2", "d/3", "d/4")
	if got, err := os.ReadFile(filepath.Join(s.dir, "d", "1")); err != nil || got[7] == readAll(t, src, "d", "1")[7] {
		t.Errorf("a complete file was copied again: %v", err)
	}
	run(t, exitOK, "cp", "-r", "--resume", "--verify", src+"/d", s.url)
	wantSame(t, src, s.dir, "d/0", "d/1", "d/2", "d/3", "d/4")
	wantNames(t, filepath.Join(s.dir, "d"), "0", "1", "2", "3", "4")
}

// readAll returns the content of a file.
func readAll(t *testing.T, elem ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// wantSame checks that files of two directories have the same content.
func wantSame(t *testing.T, a, b string, names ...string) {
	t.Helper()
	for _, name := range names {
		if !bytes.Equal(readAll(t, a, name), readAll(t, b, name)) {
			t.Errorf("%s differs", name)
		}
	}
}

// A stream, and a source without a size, cannot be resumed.
func TestResumeRefusesStreams(t *testing.T) {
	s := startServer(t, t.TempDir())
	run(t, exitUsage, "cp", "--resume", "-", s.url+"/f")
	run(t, exitUsage, "cp", "--resume", s.url+"/f", "-")
	run(t, exitFailure, "cp", "--resume", "/proc/self/status", s.url+"/f")
	wantNames(t, s.dir)
}

// A directory is copied while its server is killed and started again. With --verify, and above smallSize, a file is
// written in parts.
func TestTreeIsCopiedWhileServerIsKilled(t *testing.T) {
	for name, flags := range map[string][]string{"plain": {"-r"}, "verified": {"-r", "--verify"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			copyTreeUnderKills(t, flags)
		})
	}
}

func copyTreeUnderKills(t *testing.T, flags []string) {
	const kills, files = maxRepeats - 1, 60 // on a slow machine one write may lose its connection at each kill
	s, url := newStateServer(t, "--byte-rate", "10m", "--byte-burst", "1m")
	src := t.TempDir()
	for i := range files {
		randomFile(t, 1+i*i*500, src, "tree", fmt.Sprint("dir", i%7), fmt.Sprint(i))
	}
	cmd, stderr := startCopy(t, append(flags, filepath.Join(src, "tree"), url)...)
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for { // a server that does not listen is a failure at the start
		if _, err := os.Stat(filepath.Join(s.dir, "data", "tree")); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	for range kills {
		select {
		case err := <-done:
			t.Fatalf("the copy ended too early: %v\n%s", err, stderr.String())
		case <-time.After(rand.N(200 * time.Millisecond)):
		}
		s.kill()
		s.start()
	}
	if err := <-done; err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	for i := range files {
		wantSame(t, src, filepath.Join(s.dir, "data"), fmt.Sprint("tree/dir", i%7, "/", i))
	}
	for i := range 7 {
		if left := parts(t, filepath.Join(s.dir, "data", "tree", fmt.Sprint("dir", i))); len(left) != 0 {
			t.Errorf("%q are left", left)
		}
	}
}
