package posix_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"lwio/vfs"
	"lwio/vfs/posix"
)

// The identity of a file is the same under each name and in each Dir, and no later file has it, even with
// the same inode number.
func TestIdentityIsOfOneFile(t *testing.T) {
	dir := t.TempDir()
	identity := func(name string) []byte {
		t.Helper()
		d, err := posix.OpenDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		h, err := d.Open(name, vfs.HandleMode{Read: true})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		id, err := h.Identity()
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	put := func(name string) {
		t.Helper()
		if err := os.WriteFile(at(name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("a")
	first := identity("a")
	put("a") // truncated and written again
	if !bytes.Equal(identity("a"), first) {
		t.Error("another identity after a change")
	}
	if err := os.Rename(at("a"), at("b")); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(identity("b"), first) {
		t.Error("another identity after a rename")
	}
	for range 100 {
		if err := os.Remove(at("b")); err != nil {
			t.Fatal(err)
		}
		put("b")
		if bytes.Equal(identity("b"), first) {
			t.Fatal("a later file has the identity of a removed one")
		}
	}
}
