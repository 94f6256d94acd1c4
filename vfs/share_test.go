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

func TestConnectIgnoresCase(t *testing.T) {
	s := newSite(t)
	for _, name := range []string{"data", "DATA", "dAtA"} {
		if sh, rights, err := s.Connect(name, ""); err != nil || sh.Name != "data" || rights != vfs.ReadWrite {
			t.Errorf("Connect(%q) = %v, %v, %v", name, sh, rights, err)
		}
	}
	_, _, err := s.Connect("dat", "")
	wantStatus(t, "connect to no share", err, ntstatus.BadNetworkName)
	if sh, rights, err := s.Connect("frozen", ""); err != nil || !sh.ReadOnly || rights != vfs.ReadOnly {
		t.Errorf("Connect(frozen) = %v, %v, %v", sh, rights, err)
	}
	_, err = s.open("a", inShare("other"))
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
