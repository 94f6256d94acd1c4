package smbclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// The resume key comes with the round trip of the open, or with one of its own; it names the
// pipe, since the client offers more room than plain clients do.
//
// Source: [LWIO §Discovery], [LWIO claim 4], [OP-30], [OP-31], [OP-33]
func TestResumeKeyComesWithTheOpen(t *testing.T) {
	tree, _ := mount(t, nil)
	q := readWrite("f")
	apart := open(t, tree, q)
	q.ResumeKey = true
	at := open(t, tree, q)
	if at.key == nil {
		t.Error("no key came with the open")
	}
	var seen [][24]byte
	for _, f := range []*File{apart, at} {
		raw, err := f.ResumeKey(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		again, err := f.ResumeKey(t.Context())
		if err != nil || !bytes.Equal(raw, again) {
			t.Error("another key at the second call", err)
		}
		k, err := smbwire.DecodeResumeKey(raw)
		if err != nil {
			t.Fatal(err)
		}
		if name, err := smbwire.DecodeUTF16(k.Context); err != nil || name != unc {
			t.Errorf("context %q, %v", name, err)
		}
		seen = append(seen, k.Key)
	}
	if seen[0] == seen[1] {
		t.Error("two opens with one key")
	}
	out, err := apart.ioctl(t.Context(), smbwire.FsctlSrvRequestResumeKey, nil, smbwire.ResumeKeySize)
	if err != nil || len(out) != smbwire.ResumeKeySize || !bytes.Equal(out[24:], make([]byte, 8)) {
		t.Errorf("a plain client gets %x, %v", out, err)
	}
	if _, err := apart.ioctl(t.Context(), 0x00099999, nil, 0); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if _, err := apart.ioctl(t.Context(), 0, nil, tree.s.neg.maxTransact+1); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
}

// openPipe opens a pipe, which the end of the test closes.
func openPipe(t *testing.T, s *Session, name string) *Pipe {
	t.Helper()
	p, err := s.OpenPipe(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// Source: [MS-FSCC 2.3.45], [OP-34]
func TestPipeTransactReturnsTheResult(t *testing.T) {
	addr, _ := startServer(t, nil)
	s := connect(t, addr, nil)
	if _, err := s.OpenPipe(t.Context(), "nosuch"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	p := openPipe(t, s, "reverse")
	for _, in := range []string{"abc", string(random(60000))} {
		out, err := p.Transact(t.Context(), []byte(in), 1<<16)
		slices.Reverse(out)
		if err != nil || string(out) != in {
			t.Errorf("%d bytes: %v", len(in), err)
		}
	}
	out, err := p.Transact(t.Context(), []byte("abcdef"), 4)
	if string(out) != "fedc" || !errors.Is(err, ntstatus.BufferOverflow) {
		t.Errorf("%q, %v", out, err)
	}
}

// A call that hangs at the server ends with its context and is cancelled there; the session
// continues.
//
// Source: [MS-SMB2 3.2.4.24]
func TestCanceledCallIsCancelledAtTheServer(t *testing.T) {
	addr, _ := startServer(t, nil)
	s := connect(t, addr, nil)
	p := openPipe(t, s, "reverse")
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := p.Transact(ctx, []byte("hang"), 100)
		failed <- err
	}()
	for pending := false; !pending; {
		s.conn.requests.mu.Lock()
		for _, p := range s.conn.requests.byID {
			pending = p.command == smbwire.CommandIoctl
		}
		s.conn.requests.mu.Unlock()
	}
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := echo(t.Context(), s); err != nil {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := echo(ended, s); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A Close whose context has ended still closes the file.
//
// Source: [MS-SMB2 3.2.4.5]
func TestCloseWithEndedContext(t *testing.T) {
	tree, dir := mount(t, nil)
	f, err := tree.Create(t.Context(), readWrite("f"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.SetDelete(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Close(ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		if _, err := os.Stat(filepath.Join(dir, "f")); errors.Is(err, fs.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the file was not closed")
		}
		if err := echo(t.Context(), tree.s); err != nil {
			t.Fatal(err)
		}
	}
}

// Source: [MS-SMB2 3.2.4.17]
func TestReadDirListsEveryEntry(t *testing.T) {
	tree, dir := mount(t, nil)
	want := map[string]bool{}
	for i := range 1500 { // more than one answer holds
		name := fmt.Sprintf("file-ä-%04d-with-a-name-that-takes-some-room", i)
		want[name] = true
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, i%7), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	root := open(t, tree, CreateRequest{Access: 0x00120089, Share: shareAll, Disposition: 1, Options: optionDirectory})
	if !root.Info().IsDir() {
		t.Error("the root is no directory")
	}
	list := func(pattern string) (names []string) {
		for e, err := range root.ReadDir(t.Context(), pattern) {
			if err != nil {
				t.Fatal(err)
			}
			if e.IsDir() != (e.Name == "sub") {
				t.Errorf("%+v", e)
			}
			names = append(names, e.Name)
		}
		return names
	}
	for range 2 { // each begins from the start
		names := list("")
		if len(names) != len(want)+1 {
			t.Errorf("%d names", len(names))
		}
		for _, n := range names {
			if !want[n] && n != "sub" {
				t.Errorf("%q", n)
			}
		}
	}
	if names := list("*-0007-*"); len(names) != 1 {
		t.Error(names)
	}
	if names := list("none*"); len(names) != 0 {
		t.Error(names)
	}
	for range root.ReadDir(t.Context(), "") {
		break
	}
	file := open(t, tree, readWrite("sub/f"))
	for _, err := range file.ReadDir(t.Context(), "") {
		if err == nil {
			t.Error("a file was listed")
		}
	}
}

// Reads, writes and sizes of a file agree with a slice in memory.
//
// Source: [MS-SMB2 3.2.4.6], [MS-SMB2 3.2.4.7]
func TestFileMatchesMemoryModel(t *testing.T) {
	tree, _ := mount(t, nil)
	f := open(t, tree, readWrite("f"))
	rapid.Check(t, func(rt *rapid.T) {
		if err := f.SetSize(t.Context(), 0); err != nil {
			rt.Fatal(err)
		}
		var model []byte
		rt.Repeat(map[string]func(*rapid.T){
			"write": func(rt *rapid.T) {
				off, data := rapid.IntRange(0, 1<<16).Draw(rt, "off"), rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(rt, "data")
				if n, err := f.WriteAt(t.Context(), data, int64(off)); n != len(data) || err != nil {
					rt.Fatal(n, err)
				}
				model = append(model, make([]byte, max(0, off+len(data)-len(model)))...)
				copy(model[off:], data)
			},
			"size": func(rt *rapid.T) {
				n := rapid.IntRange(0, 1<<16).Draw(rt, "size")
				if err := f.SetSize(t.Context(), int64(n)); err != nil {
					rt.Fatal(err)
				}
				model = append(model, make([]byte, max(0, n-len(model)))...)[:n]
				model = slices.Clip(model)
			},
			"read": func(rt *rapid.T) {
				off, n := rapid.IntRange(0, 1<<16).Draw(rt, "off"), rapid.IntRange(1, 1<<12).Draw(rt, "n")
				got := make([]byte, n)
				k, err := f.ReadAt(t.Context(), got, int64(off))
				want := model[min(off, len(model)):min(off+n, len(model))]
				if !bytes.Equal(got[:k], want) || errors.Is(err, io.EOF) != (len(want) < n) || err != nil && !errors.Is(err, io.EOF) {
					rt.Fatalf("%d bytes at %d: %d, %v; want %d", n, off, k, err, len(want))
				}
			},
		})
	})
}
