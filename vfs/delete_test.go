package vfs_test

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/test/skip"
	"lwio/vfs"
)

// Source: [MS-FSCC 2.4.11] [MS-FSA 2.1.5.4]
func TestDeleteAtLastClose(t *testing.T) {
	s := newSite(t)
	s.put("file")
	a, b := s.mustOpen("file"), s.mustOpen("file")
	if err := a.SetDeleteOnClose(true); err != nil {
		t.Fatal(err)
	}
	for _, o := range []*vfs.Open{a, b} {
		if info, err := o.Stat(); err != nil || !info.DeletePending {
			t.Errorf("delete not pending: %+v, %v", info, err)
		}
	}
	for _, d := range []vfs.Disposition{vfs.OpenExisting, vfs.Create, vfs.OpenIf, vfs.OverwriteIf} {
		_, err := s.open("file", disposition(d))
		wantStatus(t, "open while pending", err, ntstatus.DeletePending)
	}
	_, err := s.open("file", inShare("frozen"), access(vfs.ReadAttributes))
	wantStatus(t, "open in the other share while pending", err, ntstatus.DeletePending)
	closed(t, a)
	if !s.exists("file") {
		t.Fatal("deleted before the last close")
	}
	closed(t, b)
	if s.exists("file") {
		t.Fatal("not deleted at the last close")
	}
	closed(t, s.mustOpen("file", disposition(vfs.Create)))
}

func TestPendingDeleteCanBeCleared(t *testing.T) {
	s := newSite(t)
	s.put("file", "dir/")
	for _, path := range []string{"file", "dir"} {
		o := s.mustOpen(path)
		for _, on := range []bool{true, false} {
			if err := o.SetDeleteOnClose(on); err != nil {
				t.Fatal(err)
			}
		}
		closed(t, s.mustOpen(path), o)
		if !s.exists(path) {
			t.Errorf("%s: deleted", path)
		}
	}
	closed(t, s.mustOpen("dir/new", disposition(vfs.Create)))
}

// Source: [MS-FSA 2.1.5.4]
func TestDeleteOnCloseBelongsToOneOpen(t *testing.T) {
	s := newSite(t)
	s.put("dir/")
	a := s.mustOpen("file", disposition(vfs.Create), options(vfs.DeleteOnClose))
	if deletePending(t, a) {
		t.Error("pending before its close")
	}
	b := s.mustOpen("file")
	if b.Deleting() {
		t.Error("the delete is to come before the close begins")
	}
	a.OnRevoke(func() {
		if deletePending(t, b) || !b.Deleting() {
			t.Error("when the close has begun, the delete is not to come")
		}
	})
	closed(t, a)
	if !b.Deleting() || !deletePending(t, b) || !s.exists("file") {
		t.Error("not pending after its close")
	}
	_, err := s.open("file")
	wantStatus(t, "open while pending", err, ntstatus.DeletePending)
	closed(t, b, s.mustOpen("dir", access(vfs.Delete), options(vfs.DeleteOnClose|vfs.DirectoryFile)))
	if s.exists("file") || s.exists("dir") {
		t.Error("not deleted")
	}
	_, err = s.open("file", sharing(vfs.ShareRead), disposition(vfs.Create), access(vfs.Delete), options(vfs.DeleteOnClose))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.open("file", access(vfs.Delete), options(vfs.DeleteOnClose))
	wantStatus(t, "delete a file not shared for deletion", err, ntstatus.SharingViolation)
}

// Source: [MS-FSA 2.1.5.15.3]
func TestInvalidDeleteIsRefused(t *testing.T) {
	s := newSite(t)
	s.put("file", "locked", "full/", "full/x", "odd/", "odd/a\\b")
	if err := os.Chmod(s.host("locked"), 0o444); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		ask  vfs.Access
		want ntstatus.Status
	}{
		{"file", vfs.ReadData, ntstatus.AccessDenied},
		{"locked", vfs.Delete, ntstatus.CannotDelete},
		{"", vfs.Delete, ntstatus.CannotDelete},
		{"full", vfs.Delete, ntstatus.DirectoryNotEmpty},
		{"odd", vfs.Delete, ntstatus.DirectoryNotEmpty},
	} {
		o := s.mustOpen(c.path, access(c.ask))
		wantStatus(t, c.path, o.SetDeleteOnClose(true), c.want)
		closed(t, o)
		if !s.exists(c.path) {
			t.Errorf("%s: deleted all the same", c.path)
		}
	}
}

func TestNoCreateBelowPendingDelete(t *testing.T) {
	s := newSite(t)
	s.put("dir/")
	o := s.mustOpen("dir")
	if err := o.SetDeleteOnClose(true); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"dir/new", "dir/new/deeper"} {
		_, err := s.open(path, disposition(vfs.OpenIf))
		wantStatus(t, path, err, ntstatus.DeletePending)
	}
	f := s.mustOpen("file", disposition(vfs.Create))
	wantStatus(t, "move into it", f.Rename("dir/file", false), ntstatus.DeletePending)
	closed(t, o, f)
	if s.exists("dir") {
		t.Error("not deleted")
	}
}

// A delete on close that fails is reported, and the open is closed.
func TestFailedDeleteOnCloseIsReported(t *testing.T) {
	s := newSite(t)
	s.put("dir/")
	o := s.mustOpen("dir", options(vfs.DeleteOnClose))
	s.put("dir/late")
	wantStatus(t, "close", o.Close(), ntstatus.DirectoryNotEmpty)
	wantStatus(t, "second close", o.Close(), ntstatus.DirectoryNotEmpty)
	closed(t, s.mustOpen("dir/late"), s.mustOpen("dir"))
}

// A file that another process has given the name meanwhile is not deleted.
func TestDeleteOnCloseSparesReplacedFile(t *testing.T) {
	s := newSite(t)
	s.put("file")
	o := s.mustOpen("file", options(vfs.DeleteOnClose))
	if err := os.Rename(s.host("file"), s.host("moved")); err != nil {
		t.Fatal(err)
	}
	s.put("file")
	if err := o.Close(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if !s.exists("file") || !s.exists("moved") {
		t.Error("deleted the file of another process")
	}
}

// deletePending reports whether the delete of the file is pending.
func deletePending(t testing.TB, o *vfs.Open) bool {
	t.Helper()
	info, err := o.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return info.DeletePending
}

// While one name of a file is being deleted, no delete of another name of it succeeds or is taken back.
func TestDeletesOfLinksExcludeEachOther(t *testing.T) {
	s := newSite(t)
	s.put("a")
	if err := os.Link(s.host("a"), s.host("b")); err != nil {
		skip.Test(t, "file system without hard links", err)
	}
	a, b := s.mustOpen("a"), s.mustOpen("b")
	wantStatus(t, "delete", a.SetDeleteOnClose(true), ntstatus.Success)
	wantStatus(t, "another delete", a.SetDeleteOnClose(true), ntstatus.Success)
	wantStatus(t, "delete of the other name", b.SetDeleteOnClose(true), ntstatus.DeletePending)
	wantStatus(t, "no delete of the other name", b.SetDeleteOnClose(false), ntstatus.Success)
	closed(t, a)
	closed(t, b)
	if s.exists("a") || !s.exists("b") {
		t.Error("not the name that was deleted is gone")
	}
	b = s.mustOpen("b")
	wantStatus(t, "delete of the last name", b.SetDeleteOnClose(true), ntstatus.Success)
	closed(t, b)
	if s.exists("b") {
		t.Error("the last name is there")
	}
}
