package vfs_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/vfs"
)

// Source: [MS-SMB2 2.2.9]
func TestInvalidShareNameIsRefused(t *testing.T) {
	for name, ok := range map[string]bool{
		"data": true, "Data 1": true, "ünï": true, "a$": true, "a.b-c_d": true, strings.Repeat("x", 80): true,
		"": false, ".": false, "..": false, "a/b": false, `a\b`: false, "a:b": false, "a*": false, "IPC$": false,
		"ipc$": false, "a\x00": false, "a\n": false, "\xff": false, strings.Repeat("x", 81): false, "a,b": false,
	} {
		f, err := vfs.New(vfs.Config{Shares: []vfs.Share{{Name: name, Backend: newDir(t, t.TempDir())}}})
		switch {
		case ok && err != nil, !ok && !errors.Is(err, fs.ErrInvalid):
			t.Errorf("share %q: %v", name, err)
		case err == nil:
			f.Close()
		}
	}
}

func TestShareLookupIgnoresCase(t *testing.T) {
	s := newSite(t)
	for _, name := range []string{"data", "DATA", "dAtA"} {
		if sh, ok := s.Lookup(name); !ok || sh.Name != "data" || sh.ReadOnly {
			t.Errorf("Lookup(%q) = %v, %v", name, sh, ok)
		}
	}
	if _, ok := s.Lookup("dat"); ok {
		t.Error("found a share that is not there")
	}
	if sh, ok := s.Lookup("frozen"); !ok || !sh.ReadOnly {
		t.Errorf("Lookup(frozen) = %v, %v", sh, ok)
	}
	_, err := s.open("a", inShare("other"))
	wantStatus(t, "open in no share", err, ntstatus.BadNetworkName)
}

func TestNewRefusesDuplicateNames(t *testing.T) {
	d := newDir(t, t.TempDir())
	defer d.Close()
	_, err := vfs.New(vfs.Config{Shares: []vfs.Share{{Name: "a", Backend: d}, {Name: "A", Backend: d}}})
	if !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if _, err = vfs.New(vfs.Config{Shares: []vfs.Share{{Name: "a"}}}); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
}
