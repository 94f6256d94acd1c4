package fileio

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"slices"
	"syscall"
	"testing"

	"lwio/internal/client/base"
	"lwio/internal/client/smbshare"
	"lwio/internal/ntstatus"
)

// grownHandle is an open of a file that has grown since it was opened.
type grownHandle struct {
	smbshare.Handle
	by int64
}

func (h grownHandle) Created() smbshare.Entry {
	e := h.Handle.Created()
	e.Size -= h.by
	return e
}

// A file that has grown since it was opened is read to its end.
func TestReadAllOfGrownFile(t *testing.T) {
	share := newFakeShare()
	share.put("f", []byte("0123456789"))
	c, _ := overSMB(t, share)
	for _, by := range []int64{0, 1, 2, 9, 10} {
		f, err := c.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		f.h = grownHandle{f.h, by}
		if b, err := f.readAll(t.Context()); err != nil || string(b) != "0123456789" {
			t.Errorf("grown by %d: %q, %v", by, b, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A small file is read with one call of the session, a large one through one open.
func TestReadFileOpensLargeFilesOnly(t *testing.T) {
	share := newFakeShare()
	c, sess := overSMB(t, share)
	for i, size := range []int{0, 1, sess.MaxSmall(), sess.MaxSmall() + 1} {
		want := bytes.Repeat([]byte{byte(i + 1)}, size)
		share.put("f", want)
		reads := sess.counted(&sess.smbReads)
		got, err := c.ReadFile(t.Context(), "f")
		if err != nil || !bytes.Equal(got, want) || cap(got) < size {
			t.Errorf("%d bytes of %d, %v", len(got), size, err)
		}
		if small := sess.counted(&sess.smbReads) == reads; small != (size <= sess.MaxSmall()) || sess.counted(&sess.heads) != i+1 {
			t.Errorf("%d bytes: small %v", size, small)
		}
	}
	if n := c.overSMB.Snapshot(); n.ReadBytes != uint64(1+2*sess.MaxSmall()+sess.MaxSmall()+1) {
		t.Errorf("%+v", n)
	}
}

// A WriteFile that is refused leaves the old file alone in the directory.
func TestRefusedWriteFileLeavesOldFile(t *testing.T) {
	for name, test := range map[string]struct {
		keeping error
		err     error
		content string
	}{
		"done":                    {content: "new"},
		"deletion not taken back": {keeping: ntstatus.DiskFull, err: syscall.ENOSPC, content: "old"},
	} {
		t.Run(name, func(t *testing.T) {
			share := newFakeShare()
			share.put("f", []byte("old"))
			c, sess := overSMB(t, share)
			sess.keeping = test.keeping
			if err := c.WriteFile(t.Context(), "f", []byte("new"), smbshare.Basic{}); !errors.Is(err, test.err) || base.IsUncertain(err) {
				t.Error(err)
			}
			if names := share.names(); !slices.Equal(names, []string{"", "f"}) || string(share.files["f"].content()) != test.content {
				t.Errorf("%q", names)
			}
		})
	}
	share := newFakeShare()
	c, sess := overSMB(t, share)
	if err := sess.Mkdir(t.Context(), "d"); err != nil {
		t.Fatal(err)
	}
	sess.onRename = func(context.Context, func()) error { return ntstatus.AccessDenied }
	if err := c.WriteFile(t.Context(), "d", []byte("new"), smbshare.Basic{}); !errors.Is(err, syscall.EISDIR) {
		t.Error(err)
	}
	if err := c.WriteFile(t.Context(), "f", []byte("new"), smbshare.Basic{}); !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
}

// A small file is written with one call of the session, if the server can do that. Its refusal is the error.
func TestWriteFileWritesSmallFilesWhole(t *testing.T) {
	share := newFakeShare()
	c, sess := overSMB(t, share)
	if err := sess.Mkdir(t.Context(), "d"); err != nil {
		t.Fatal(err)
	}
	var got []smbshare.WholeFile
	for name, test := range map[string]struct{ refusal, err error }{
		"f": {nil, nil}, "g": {ntstatus.DiskFull, syscall.ENOSPC}, "d": {ntstatus.AccessDenied, syscall.EISDIR}, "h": {ntstatus.AccessDenied, fs.ErrPermission},
	} {
		got = nil
		sess.writeWhole = func(file smbshare.WholeFile) error { got = append(got, file); return test.refusal }
		if err := c.WriteFile(t.Context(), name, []byte("new"), smbshare.Basic{}); !errors.Is(err, test.err) || base.IsUncertain(err) {
			t.Errorf("%s: %v", name, err)
		}
		if len(got) != 1 || got[0].Name != name || string(got[0].Data) != "new" || got[0].Temporary == name {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if n := c.overSMB.Snapshot(); n.WrittenBytes != 3 || n.Writes != 1 {
		t.Errorf("%+v", n)
	}
	large := make([]byte, sess.MaxSmall()+1)
	got = nil
	if err := c.WriteFile(t.Context(), "f", large, smbshare.Basic{}); err != nil || got != nil || len(share.files["f"].content()) != len(large) {
		t.Errorf("%v, %+v", err, got)
	}
}
