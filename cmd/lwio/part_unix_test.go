//go:build unix

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// The unfinished copy of a file is continued if it is a file of this user. A link or a file that others can have written
// under its name is replaced, and the target of the link stays as it is.
func TestOpenPartTakesOwnFilesOnly(t *testing.T) {
	dir := t.TempDir()
	name, victim := filepath.Join(dir, ".lwio-0123.part"), write(t, []byte("victim"), dir, "victim")
	for kind, x := range map[string]struct {
		put  func() error
		size int64
	}{
		"none":          {func() error { return nil }, 0},
		"own":           {func() error { return os.WriteFile(name, []byte("part"), 0o600) }, 4},
		"symbolic link": {func() error { return os.Symlink(victim, name) }, 0},
		"dangling link": {func() error { return os.Symlink(filepath.Join(dir, "new"), name) }, 0},
		"hard link":     {func() error { return os.Link(victim, name) }, 0},
		"named pipe":    {func() error { return syscall.Mkfifo(name, 0o600) }, 0},
		"of all users": {func() error {
			if err := os.WriteFile(name, []byte("part"), 0o600); err != nil {
				return err
			}
			return os.Chmod(name, 0o666)
		}, 0},
		"of another user": {func() error {
			if err := os.WriteFile(name, []byte("part"), 0o600); err != nil {
				return err
			}
			if os.Geteuid() != 0 {
				return os.Remove(name) // only root can give a file away
			}
			return os.Chown(name, 65534, 65534)
		}, 0},
	} {
		t.Run(kind, func(t *testing.T) {
			if err := x.put(); err != nil {
				t.Fatal(err)
			}
			f, size, err := openPart(name)
			if err != nil {
				t.Fatal(err)
			}
			defer os.Remove(name)
			defer f.Close()
			if _, err := f.WriteAt([]byte("copied"), 0); err != nil || size != x.size {
				t.Errorf("%d bytes, want %d; %v", size, x.size, err)
			}
			if fi, err := os.Lstat(name); err != nil || !isOwnPart(fi) {
				t.Errorf("%v, %v", fi.Mode(), err)
			}
			if b, err := os.ReadFile(victim); err != nil || string(b) != "victim" {
				t.Errorf("the other file: %q, %v", b, err)
			}
		})
	}
	if _, err := os.Lstat(filepath.Join(dir, "new")); err == nil {
		t.Error("the target of a link was made")
	}
}
