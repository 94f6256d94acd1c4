package vfs_test

import (
	"os"
	"strings"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/test/skip"
	"lwio/vfs"
)

// Source: [MS-FSCC 2.4.37] [MS-FSA 2.1.5.15.11]
func TestRenameFollowsRules(t *testing.T) {
	type step struct {
		path, to string
		replace  bool
		want     ntstatus.Status
	}
	for _, c := range []struct {
		name string
		step step
	}{
		{"simply", step{"file", "new", false, ntstatus.Success}},
		{"to itself", step{"file", "file", false, ntstatus.Success}},
		{"into a directory", step{"file", "dir/new", false, ntstatus.Success}},
		{"a directory", step{"dir", "new", false, ntstatus.Success}},
		{"a directory, with a slash", step{"dir", "new/", false, ntstatus.Success}},
		{"a file, with a slash", step{"file", "new/", false, ntstatus.ObjectNameInvalid}},
		{"collision", step{"file", "dir/x", false, ntstatus.ObjectNameCollision}},
		{"replace", step{"file", "dir/x", true, ntstatus.Success}},
		{"replace nothing", step{"file", "new", true, ntstatus.Success}},
		{"replace a directory", step{"file", "dir", true, ntstatus.AccessDenied}},
		{"replace by a directory", step{"dir", "file", true, ntstatus.AccessDenied}},
		{"replace a read-only file", step{"file", "locked", true, ntstatus.AccessDenied}},
		{"replace an open file", step{"file", "busy", true, ntstatus.AccessDenied}},
		{"collide with an open file", step{"file", "busy", false, ntstatus.ObjectNameCollision}},
		{"to nowhere", step{"file", "no/new", false, ntstatus.ObjectPathNotFound}},
		{"through a file", step{"file", "locked/new", false, ntstatus.ObjectPathNotFound}},
		{"into itself", step{"dir", "dir/new", false, ntstatus.AccessDenied}},
		{"the root", step{"", "new", false, ntstatus.AccessDenied}},
		{"onto the root", step{"file", "", true, ntstatus.ObjectNameCollision}},
		{"out", step{"file", "../new", true, ntstatus.ObjectPathSyntaxBad}},
		{"away", step{"file", "/new", true, ntstatus.ObjectPathSyntaxBad}},
		{"a stream", step{"file", "new:x", true, ntstatus.ObjectNameInvalid}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			s.put("file", "dir/", "dir/x", "locked", "busy")
			if err := os.Chmod(s.host("locked"), 0o444); err != nil {
				t.Fatal(err)
			}
			busy := s.mustOpen("busy", access(vfs.ReadAttributes))
			o, witness := s.mustOpen(c.step.path), s.mustOpen(c.step.path)
			err := o.Rename(c.step.to, c.step.replace)
			wantStatus(t, "rename", err, c.step.want)
			path := c.step.path
			if err == nil {
				path = strings.TrimSuffix(c.step.to, "/")
			}
			for _, w := range []*vfs.Open{o, witness} {
				if w.Path() != path {
					t.Errorf("path is %q, want %q", w.Path(), path)
				}
			}
			if !s.exists(path) || path != c.step.path && s.exists(c.step.path) {
				t.Errorf("%q is not where the file is", path)
			}
			closed(t, busy, o, witness)
		})
	}
}

func TestRenameNeedsDelete(t *testing.T) {
	s := newSite(t)
	s.put("file")
	o := s.mustOpen("file", access(vfs.GenericRead|vfs.GenericWrite))
	wantStatus(t, "rename", o.Rename("new", false), ntstatus.AccessDenied)
}

// Source: [MS-FSA 2.1.5.15.11]
func TestRenameOfDirectoryAboveOpenIsRefused(t *testing.T) {
	s := newSite(t)
	s.put("dir/", "dir/sub/", "dir/sub/x", "dirt")
	d, x, near := s.mustOpen("dir"), s.mustOpen("dir/sub/x"), s.mustOpen("dirt")
	wantStatus(t, "rename above an open", d.Rename("new", false), ntstatus.AccessDenied)
	closed(t, x)
	wantStatus(t, "rename after its close", d.Rename("new", false), ntstatus.Success)
	x = s.mustOpen("new/sub/x", options(vfs.DeleteOnClose))
	closed(t, d, near, x)
	if s.exists("new/sub/x") {
		t.Error("delete did not find the file at its new place")
	}
}

func TestDeleteFollowsRename(t *testing.T) {
	s := newSite(t)
	s.put("file", "dir/")
	o := s.mustOpen("file", options(vfs.DeleteOnClose))
	wantStatus(t, "rename", o.Rename("dir/new", false), ntstatus.Success)
	s.put("file")
	closed(t, o)
	if s.exists("dir/new") || !s.exists("file") {
		t.Error("the delete did not follow the rename")
	}
	o = s.mustOpen("file")
	wantStatus(t, "delete", o.SetDeleteOnClose(true), ntstatus.Success)
	wantStatus(t, "rename with a pending delete", o.Rename("new", false), ntstatus.AccessDenied)
}

// Publish cancels the pending delete of the file that it renames. After a refusal the file is deleted.
func TestPublishCancelsDelete(t *testing.T) {
	for name, c := range map[string]struct {
		to   string
		want ntstatus.Status
	}{
		"new name":   {"new", ntstatus.Success},
		"other file": {"old", ntstatus.Success},
		"own name":   {"file", ntstatus.Success},
		"open file":  {"busy", ntstatus.AccessDenied},
		"nowhere":    {"no/new", ntstatus.ObjectPathNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.put("file", "old", "busy")
			busy, o := s.mustOpen("busy"), s.mustOpen("file")
			wantStatus(t, "delete", o.SetDeleteOnClose(true), ntstatus.Success)
			wantStatus(t, "publish", o.Publish(c.to, true), c.want)
			if done := c.want == ntstatus.Success; o.Deleting() == done {
				t.Errorf("pending delete: %v", o.Deleting())
			}
			closed(t, o, busy)
			if done := c.want == ntstatus.Success; s.exists(c.to) != (done || c.to == "busy") || s.exists("file") != (c.to == "file") {
				t.Error("a file is left, or missing")
			}
		})
	}
}

// The delete of another link of the file is not cancelled, and refuses the rename.
func TestPublishLeavesDeleteOfOtherLink(t *testing.T) {
	s := newSite(t)
	s.put("a")
	if err := os.Link(s.host("a"), s.host("b")); err != nil {
		skip.Test(t, "file system without hard links", err)
	}
	a, b := s.mustOpen("a"), s.mustOpen("b")
	wantStatus(t, "delete", a.SetDeleteOnClose(true), ntstatus.Success)
	wantStatus(t, "publish", b.Publish("c", false), ntstatus.AccessDenied)
	closed(t, a, b)
	if s.exists("a") || !s.exists("b") {
		t.Error("another link is deleted")
	}
}

// A hard link keeps its name when another link of the file is renamed.
func TestRenameKeepsOtherLinks(t *testing.T) {
	s := newSite(t)
	s.put("a")
	if err := os.Link(s.host("a"), s.host("b")); err != nil {
		skip.Test(t, "file system without hard links", err)
	}
	a, b := s.mustOpen("a"), s.mustOpen("b")
	if info, err := a.Stat(); err != nil || info.Links != 2 {
		t.Errorf("%d links, %v", info.Links, err)
	}
	wantStatus(t, "onto its other link", a.Rename("b", true), ntstatus.AccessDenied)
	wantStatus(t, "rename", a.Rename("c", false), ntstatus.Success)
	if a.Path() != "c" || b.Path() != "b" {
		t.Errorf("paths are %q and %q", a.Path(), b.Path())
	}
	wantStatus(t, "exclusive open of a shared file", func() error {
		_, err := s.open("b", sharing(0))
		return err
	}(), ntstatus.SharingViolation)
}

func TestRenameOfFileMovedOnDiskIsRefused(t *testing.T) {
	s := newSite(t)
	s.put("file")
	o := s.mustOpen("file")
	if err := os.Rename(s.host("file"), s.host("moved")); err != nil {
		t.Fatal(err)
	}
	s.put("file")
	wantStatus(t, "rename", o.Rename("new", false), ntstatus.ObjectNameNotFound)
	if !s.exists("file") || s.exists("new") {
		t.Error("renamed the file of another process")
	}
}

// A rename into a directory counts as an open of the directory that writes and does not share deletes.
//
// Source: [MS-FSA 2.1.5.15.11]
func TestRenameRespectsOpensOfTheTargetDirectory(t *testing.T) {
	s := newSite(t)
	s.put("from/", "to/", "from/file")
	o := s.mustOpen("from/file", access(vfs.Delete))
	for _, c := range []struct {
		access vfs.Access
		share  vfs.ShareMode
		want   ntstatus.Status
	}{
		{vfs.Delete, vfs.ShareAll, ntstatus.SharingViolation},
		{vfs.ReadData, vfs.ShareRead, ntstatus.SharingViolation},
		{vfs.ReadData, vfs.ShareRead | vfs.ShareWrite, ntstatus.Success},
		{vfs.ReadAttributes, 0, ntstatus.Success},
	} {
		dir := s.mustOpen("to", access(c.access), sharing(c.share))
		wantStatus(t, "rename", o.Rename("to/file", false), c.want)
		closed(t, dir)
		if c.want == ntstatus.Success {
			wantStatus(t, "rename back", o.Rename("from/file", false), ntstatus.Success)
		}
	}
}
