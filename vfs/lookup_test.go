package vfs_test

import (
	"testing"

	"lwio/internal/ntstatus"
	"lwio/vfs"
)

// Lookup describes a file as an open of the same path does, or fails as the open does, and leaves no open. It needs no
// right on the directory, follows its renames, and ends with it.
//
// Source: [OP-118] [MS-FSA 2.1.5.1]
func TestLookupIsLikeAnOpen(t *testing.T) {
	s := newSite(t)
	s.put("d/", "d/e/", "d/f", "d/e/g", "top")
	root := s.mustOpen("", access(vfs.ReadAttributes))
	d := s.mustOpen("d", access(vfs.ReadAttributes))
	compare := func(dir *vfs.Open, in, name string) {
		t.Helper()
		got, err := dir.Lookup(name)
		path := in + name
		if name == "" {
			path = in[:max(len(in)-1, 0)]
		}
		o, wantErr := s.open(path, access(vfs.ReadAttributes))
		if ntstatus.Of(err) != ntstatus.Of(wantErr) {
			t.Errorf("%q in %q: %v; an open: %v", name, in, err, wantErr)
		}
		if wantErr != nil {
			return
		}
		want, err := o.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%q in %q: %+v; an open: %+v", name, in, got, want)
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}
	names := []string{"", "f", "e", "e/", "e/g", "f/", "f/g", "none", "none/f", ".", "..", "../top", "e/../f", "/f", "e//g", "a:b", "a*", "\xff", "a\x00b"}
	for _, name := range names {
		compare(root, "", "d/"+name)
		if name != "." && name != ".." && name != "../top" && name != "/f" { // which have another meaning behind a prefix
			compare(d, "d/", name)
		}
	}
	for _, name := range []string{"..", "../top", "/top", "."} {
		if info, err := d.Lookup(name); name != "." && err == nil {
			t.Errorf("%q leads to %+v", name, info)
		}
	}
	doomed := s.mustOpen("d/f")
	if err := doomed.SetDeleteOnClose(true); err != nil {
		t.Fatal(err)
	}
	compare(d, "d/", "f") // DELETE_PENDING
	if err := doomed.Close(); err != nil {
		t.Fatal(err)
	}
	compare(d, "d/", "f")
	o := s.mustOpen("top")
	if _, err := o.Lookup("f"); ntstatus.Of(err) != ntstatus.NotADirectory {
		t.Error(err)
	}
	if n := s.Stats().Opens; n != 3 {
		t.Errorf("%d opens", n)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Lookup("e"); ntstatus.Of(err) != ntstatus.FileClosed {
		t.Error(err)
	}
}
