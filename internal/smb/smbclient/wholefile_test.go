package smbclient

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// A whole file has its content, times and attributes, or is not there.
func TestWriteWholeWritesOrLeaves(t *testing.T) {
	tree, dir := mount(t, nil)
	ctx := t.Context()
	for range 2 {
		if can, err := tree.WritesWhole(ctx); !can || err != nil {
			t.Fatal(can, err)
		}
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "f"), []byte("old"), 0o600), os.Mkdir(filepath.Join(dir, "d"), 0o700)); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2020, 1, 2, 3, 4, 5, 600, time.UTC)
	for name, test := range map[string]struct {
		file WholeFile
		err  error
	}{
		"new":        {WholeFile{Name: "g", Data: []byte("new")}, nil},
		"empty":      {WholeFile{Name: "e"}, nil},
		"other file": {WholeFile{Name: "f", Data: []byte("new"), Basic: Basic{Modified: at, Attributes: attributeReadOnly}}, nil},
		"directory":  {WholeFile{Name: "d", Data: []byte("new")}, fs.ErrPermission},
		"nowhere":    {WholeFile{Name: "no/f", Data: []byte("new")}, fs.ErrNotExist},
		"too long":   {WholeFile{Name: "f", Data: make([]byte, tree.MaxSmall()+1)}, fs.ErrInvalid},
		"no name":    {WholeFile{Name: "a:b"}, fs.ErrInvalid},
	} {
		test.file.Temporary = "part"
		if err := tree.WriteWhole(ctx, test.file); !errors.Is(err, test.err) || errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "part")); err == nil {
			t.Errorf("%s: the temporary file is left", name)
		}
		if test.err == nil {
			if got := contents(t, filepath.Join(dir, test.file.Name)); got != string(test.file.Data) {
				t.Errorf("%s: %q", name, got)
			}
		}
	}
	if fi, err := os.Stat(filepath.Join(dir, "f")); err != nil || !fi.ModTime().Equal(at) || fi.Mode()&0o222 != 0 {
		t.Errorf("%v, %v", fi, err)
	}
}

// A server that ignores the context, or refuses the question, gets no whole file. A server that goes back on its answer
// breaks the protocol.
func TestWriteWholeNeedsTheServer(t *testing.T) {
	for name, by := range map[string]served{"ignored": nil, "refused": {smbwire.CommandCreate: refusal(ntstatus.AccessDenied)}} {
		_, tree := fakeMount(t, replies(by), nil)
		for range 2 {
			if can, err := tree.WritesWhole(t.Context()); can || err != nil {
				t.Errorf("%s: %v, %v", name, can, err)
			}
		}
		if err := tree.WriteWhole(t.Context(), WholeFile{Name: "f", Temporary: "part"}); err == nil || name == "ignored" && !errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The error of WriteWhole is the first failure. Without a response the outcome is unknown.
func TestWriteWholeReportsFirstFailure(t *testing.T) {
	created := func(f *fake, h smbwire.Header) {
		f.reply(h, ntstatus.Success, &smbwire.CreateResponse{FileID: fakeFile, Contexts: []smbwire.CreateContext{wholeContext}})
	}
	set, wrote := with(ntstatus.Success, smbwire.SetInfoResponse{}), with(ntstatus.Success, &smbwire.WriteResponse{Count: 4})
	for name, test := range map[string]struct {
		by      served
		err     error
		unknown bool
	}{
		"done":      {by: served{smbwire.CommandSetInfo: set, smbwire.CommandWrite: wrote}},
		"full disk": {by: served{smbwire.CommandSetInfo: refusal(ntstatus.DiskFull), smbwire.CommandWrite: refusal(ntstatus.DiskFull)}, err: ntstatus.DiskFull},
		"refused":   {by: served{smbwire.CommandSetInfo: refusal(ntstatus.AccessDenied), smbwire.CommandWrite: wrote}, err: ntstatus.AccessDenied},
		"lost": {by: served{smbwire.CommandSetInfo: func(f *fake, _ smbwire.Header) { f.nc.Close() }, smbwire.CommandWrite: wrote},
			err: fs.ErrClosed, unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			test.by[smbwire.CommandCreate] = created
			f, tree := fakeMount(t, replies(test.by), nil)
			err := tree.WriteWhole(t.Context(), WholeFile{Name: "f", Temporary: "part", Data: []byte("data")})
			if err != nil != (test.err != nil) || name != "lost" && !errors.Is(err, test.err) || errors.Is(err, ErrUnknownOutcome) != test.unknown {
				t.Errorf("%v", err)
			}
			if name == "lost" {
				return
			}
			if err := tree.s.conn.run(t.Context(), request{command: smbwire.CommandEcho, body: smbwire.Empty{}}); err != nil {
				t.Fatal(err) // the requests before it have been seen
			}
			want := []smbwire.Command{smbwire.CommandCreate, smbwire.CommandWrite, smbwire.CommandSetInfo, smbwire.CommandClose}
			if got := commands(f); !slices.Equal(got, want) {
				t.Errorf("requests: %v", got)
			}
		})
	}
}

// BenchmarkWriteWhole writes files of 4 KiB in one message each.
func BenchmarkWriteWhole(b *testing.B) {
	tree, _ := mount(b, nil)
	if can, err := tree.WritesWhole(b.Context()); !can || err != nil {
		b.Fatal(can, err)
	}
	file := WholeFile{Name: "f", Temporary: "part", Data: make([]byte, 4096)}
	b.ReportAllocs()
	b.SetBytes(4096)
	for b.Loop() {
		if err := tree.WriteWhole(b.Context(), file); err != nil {
			b.Fatal(err)
		}
	}
}
