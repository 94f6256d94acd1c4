package integration

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// backups runs rclone, and restic over rclone, with the server as the remote "lwio".
type backups struct {
	t    *testing.T
	dir  string // the working directory, in which the programs keep their files
	vars []string
}

func newBackups(t *testing.T, s *lwioServer) *backups {
	b := &backups{t: t, dir: t.TempDir()}
	secret := strings.TrimSpace(b.run("rclone", "obscure", s.password))
	b.vars = []string{
		"RCLONE_CONFIG_LWIO_TYPE=smb", "RCLONE_CONFIG_LWIO_HOST=" + s.host, "RCLONE_CONFIG_LWIO_PORT=" + s.port,
		"RCLONE_CONFIG_LWIO_USER=" + s.user, "RCLONE_CONFIG_LWIO_PASS=" + secret, "RESTIC_PASSWORD=of the repository",
	}
	return b
}

// try runs a program in the working directory, and returns its output.
func (b *backups) try(program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(b.t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "HOME="+b.dir, "RCLONE_CONFIG="+filepath.Join(b.dir, "rclone.conf"))
	cmd.Env = append(cmd.Env, b.vars...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// run is try for a program that must succeed.
func (b *backups) run(program string, args ...string) string {
	b.t.Helper()
	out, err := b.try(program, args...)
	if err != nil {
		b.t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return out
}

// path is the path of a name in the working directory.
func (b *backups) path(name string) string { return filepath.Join(b.dir, name) }

// fill writes a tree of random files: empty, small and large ones, with names that are not ASCII.
func (b *backups) fill(name string) {
	b.t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 40 {
		dir := filepath.Join(b.path(name), fmt.Sprintf("dir %d", i%4), "sub")
		content := make([]byte, r.IntN(60_000))
		switch i {
		case 0:
			content = nil
		case 1:
			content = make([]byte, 12<<20)
		}
		for j := range content {
			content[j] = byte(r.Uint32())
		}
		b.write(filepath.Join(dir, fmt.Sprintf("ä file %d.bin", i)), content)
	}
}

func (b *backups) write(path string, content []byte) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// rclone copies, checks, lists, moves, synchronises and removes a tree.
func TestRcloneCopiesAndChecksTrees(t *testing.T) {
	need(t, "rclone")
	for _, encryption := range []string{"offered", "required"} {
		t.Run("encryption "+encryption, func(t *testing.T) {
			dir := t.TempDir()
			b := newBackups(t, serve(t, dir, "--encryption", encryption))
			b.fill("tree")
			b.run("rclone", "copy", "tree", "lwio:data/tree")
			b.run("diff", "-r", b.path("tree"), filepath.Join(dir, "tree"))
			b.run("rclone", "check", "--download", "tree", "lwio:data/tree")
			if n := strings.Count(b.run("rclone", "lsf", "-R", "--files-only", "lwio:data/tree"), ".bin\n"); n != 40 {
				t.Errorf("the list has %d files", n)
			}
			b.run("rclone", "moveto", "lwio:data/tree/dir 0/sub/ä file 0.bin", "lwio:data/tree/moved/empty")
			b.write(b.path("tree/dir 1/sub/ä file 1.bin"), []byte("changed"))
			b.run("rclone", "sync", "tree", "lwio:data/tree")
			b.run("diff", "-r", b.path("tree"), filepath.Join(dir, "tree"))
			b.run("rclone", "copy", "lwio:data/tree", "back")
			b.run("diff", "-r", b.path("tree"), b.path("back"))
			b.write(filepath.Join(dir, "tree", "dir 1", "sub", "ä file 1.bin"), []byte("CHANGED"))
			if out, err := b.try("rclone", "check", "--download", "tree", "lwio:data/tree"); err == nil {
				t.Errorf("a file with other content is not noticed:\n%s", out)
			}
			b.run("rclone", "purge", "lwio:data/tree")
			if _, err := os.Stat(filepath.Join(dir, "tree")); !os.IsNotExist(err) {
				t.Errorf("the tree is still there: %v", err)
			}
			if out, err := b.try("rclone", "lsf", "--retries", "1", "--low-level-retries", "1", "lwio:nothing"); err == nil {
				t.Errorf("a share that is not there is listed:\n%s", out)
			}
		})
	}
}

// restic makes a repository, two backups of a tree, and restores both; a damaged repository is noticed.
func TestResticBacksUpAndRestores(t *testing.T) {
	need(t, "rclone")
	need(t, "restic")
	dir := t.TempDir()
	b := newBackups(t, serve(t, dir))
	restic := func(args ...string) string {
		return b.run("restic", append([]string{"--no-cache", "-r", "rclone:lwio:data/repository"}, args...)...)
	}
	restic("init")
	b.fill("tree")
	restic("backup", "tree")
	b.write(b.path("tree/dir 2/added"), bytes.Repeat([]byte("added"), 1000))
	restic("backup", "tree")
	restic("check", "--read-data")
	restic("restore", "latest", "--target", "last")
	b.run("diff", "-r", b.path("tree"), b.path("last/tree"))
	restic("forget", "--keep-last", "1", "--prune")
	restic("check", "--read-data")
	restic("restore", "latest", "--target", "kept")
	b.run("diff", "-r", b.path("tree"), b.path("kept/tree"))

	packs, err := filepath.Glob(filepath.Join(dir, "repository", "data", "*", "*"))
	if err != nil || len(packs) == 0 {
		t.Fatalf("the repository has no packs: %v", err)
	}
	content, err := os.ReadFile(packs[0])
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
	if err := os.WriteFile(packs[0], content, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := b.try("restic", "--no-cache", "-r", "rclone:lwio:data/repository", "check", "--read-data"); err == nil {
		t.Errorf("a damaged pack is not noticed:\n%s", out)
	}
}
