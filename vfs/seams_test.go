package vfs_test

import (
	"io/fs"
	"os"
	"slices"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/vfs"
)

// An open that finds another file than it looked at begins again.
//
// Source: [MS-FSA 2.1.5.1]
func TestOpenIsRaced(t *testing.T) {
	h := &hooked{}
	s := newSite(t, hook(h))
	defer h.Backend.Close()
	s.put("file", "locked")
	if err := os.Chmod(s.host("locked"), 0o444); err != nil {
		t.Fatal(err)
	}
	looks := 0
	h.looked = func(string) {
		if looks++; looks == 1 {
			if err := os.Rename(s.host("locked"), s.host("file")); err != nil {
				t.Error(err)
			}
		}
	}
	_, err := s.open("file", access(vfs.ReadData|vfs.WriteData))
	wantStatus(t, "write what is read-only by now", err, ntstatus.AccessDenied)
	if looks < 2 && os.Getuid() == 0 {
		t.Errorf("looked %d times", looks)
	}
	looks = 1
	h.looked = func(path string) {
		// Now there, now not: an open ends all the same.
		if looks++; looks%2 == 0 {
			os.Rename(s.host("file"), s.host("away"))
		} else {
			os.Rename(s.host("away"), s.host("file"))
		}
	}
	o, err := s.open("file", access(vfs.ReadData), disposition(vfs.OpenIf))
	if err == nil {
		closed(t, o)
	}
}

// Source: [OP-92f]
func TestWriteThroughReachesTheBackend(t *testing.T) {
	h := &hooked{}
	s := newSite(t, hook(h))
	defer h.Backend.Close()
	s.put("file")
	for _, opt := range []vfs.Options{0, vfs.WriteThrough, vfs.NoIntermediateBuffering} {
		o := s.mustOpen("file", options(opt))
		held(t, o, func() { o.WriteAt([]byte("x"), 0) })
		closed(t, o)
	}
	if want := []bool{false, true, false}; !slices.Equal(h.durable, want) {
		t.Errorf("durable: %v, want %v", h.durable, want)
	}
}

// Source: [OP-57]
func TestDeleteIsGrantedByTheDirectoryAbove(t *testing.T) {
	h := &hooked{removable: fs.ErrPermission}
	s := newSite(t, hook(h))
	defer h.Backend.Close()
	s.put("file")
	_, err := s.open("file", access(vfs.Delete))
	wantStatus(t, "delete", err, ntstatus.AccessDenied)
	_, err = s.open("file", access(vfs.MaximumAllowed), options(vfs.DeleteOnClose))
	wantStatus(t, "delete on close", err, ntstatus.AccessDenied)
	o := s.mustOpen("file", access(vfs.MaximumAllowed))
	if o.Granted()&vfs.Delete != 0 || o.MaximalAccess()&vfs.Delete != 0 {
		t.Errorf("granted %x of %x", o.Granted(), o.MaximalAccess())
	}
}

func TestNoOpensAfterClose(t *testing.T) {
	h := &hooked{}
	s := newSite(t, hook(h))
	defer h.Backend.Close()
	s.put("file")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := s.open("file")
	wantStatus(t, "open", err, ntstatus.FileClosed)
}

// The backend itself does not replace what it is not told to, and does not
// touch a file that is not the one meant.
func TestDirKeepsItsPromises(t *testing.T) {
	s := newSite(t)
	s.put("a", "b", "dir/")
	d := newDir(t, s.dir)
	defer d.Close()
	a, err := d.Stat("a")
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.Stat("b")
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, "rename", d.Rename("a", "b", a.Node(), false), ntstatus.ObjectNameCollision)
	wantStatus(t, "rename of another", d.Rename("a", "c", b.Node(), true), ntstatus.ObjectNameNotFound)
	wantStatus(t, "remove of another", d.Remove("a", b.Node(), false), ntstatus.ObjectNameNotFound)
	wantStatus(t, "remove of nothing", d.Remove("c", b.Node(), false), ntstatus.ObjectNameNotFound)
	_, err = d.Create("a", vfs.How{Write: true}, false)
	wantStatus(t, "create", err, ntstatus.ObjectNameCollision)
	wantStatus(t, "mkdir", d.Mkdir("dir"), ntstatus.ObjectNameCollision)
	_, err = d.Open("dir", vfs.How{Read: true})
	wantStatus(t, "directory as file", err, ntstatus.FileIsADirectory)
	_, err = d.Open("a", vfs.How{Dir: true})
	wantStatus(t, "file as directory", err, ntstatus.NotADirectory)
	wantStatus(t, "rename", d.Rename("a", "b", a.Node(), true), ntstatus.Success)
	wantStatus(t, "remove", d.Remove("b", a.Node(), false), ntstatus.Success)
	if s.exists("a") || s.exists("b") {
		t.Error("not removed")
	}
}
