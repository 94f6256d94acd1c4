package smbclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// random is that much noise, the same every time.
func random(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(b)
	return b
}

// Reads and writes of every length, split as the server wants them.
//
// Source: [MS-SMB2 3.2.4.6], [MS-SMB2 3.2.4.7]
func TestReadWrite(t *testing.T) {
	tree, dir := mount(t, nil)
	for _, n := range []int{0, 1, 4096, creditUnit, creditUnit + 1, maxPiece - 1, maxPiece, maxPiece + 1, 9*maxPiece + 5} {
		name := fmt.Sprint("f", n)
		f, data := open(t, tree, readWrite(name)), random(n)
		if got, err := f.WriteAt(t.Context(), data, 3); got != n || err != nil {
			t.Fatalf("%d: wrote %d, %v", n, got, err)
		}
		if n > 0 && contents(t, filepath.Join(dir, name)) != "\x00\x00\x00"+string(data) {
			t.Errorf("%d: the file holds something else", n)
		}
		got := make([]byte, n)
		if r, err := f.ReadAt(t.Context(), got, 3); r != n || err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d: read %d, %v", n, r, err)
		}
		got = make([]byte, n+maxPiece)
		if r, err := f.ReadAt(t.Context(), got, 3); r != n || !errors.Is(err, io.EOF) || !bytes.Equal(got[:r], data) {
			t.Errorf("%d: read to the end %d, %v", n, r, err)
		}
	}
}

// Source: [MS-SMB2 3.2.4.6]
func TestReadAtTheEnd(t *testing.T) {
	tree, _ := mount(t, nil)
	f := open(t, tree, readWrite("f"))
	if _, err := f.WriteAt(t.Context(), []byte("12345"), 0); err != nil {
		t.Fatal(err)
	}
	for off, want := range map[int64]int{0: 5, 4: 1, 5: 0, 6: 0, 1 << 40: 0} {
		if n, err := f.ReadAt(t.Context(), make([]byte, 10), off); n != want || err != io.EOF { //nolint:errorlint // as io.ReaderAt has it, not wrapped
			t.Errorf("at %d: %d, %v", off, n, err)
		}
	}
	for _, off := range []int64{-1, math.MinInt64, math.MaxInt64} {
		if _, err := f.ReadAt(t.Context(), make([]byte, 10), off); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("at %d: %v", off, err)
		}
		if _, err := f.WriteAt(t.Context(), make([]byte, 10), off); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("at %d: %v", off, err)
		}
	}
}

// Many callers share a session, and few credits.
//
// Source: [MS-SMB2 3.2.4.1.2]
func TestManyInFlight(t *testing.T) {
	tree, _ := mount(t, func(c *Config) { c.Credits = 1 })
	data := random(64 * 40000)
	f := open(t, tree, readWrite("f"))
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			part := data[i*40000 : (i+1)*40000]
			if _, err := f.WriteAt(t.Context(), part, int64(i*40000)); err != nil {
				t.Error(err)
			}
			got := make([]byte, len(part))
			if _, err := f.ReadAt(t.Context(), got, int64(i*40000)); err != nil || !bytes.Equal(got, part) {
				t.Error("read", i, err)
			}
			if _, err := tree.Stat(t.Context(), "f"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	c := tree.s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.credits.spent != 0 || c.credits.held < 1 || len(c.pending) != 0 || len(c.credits.queue) != 0 {
		t.Errorf("%d credits spent, %d held, %d requests pending", c.credits.spent, c.credits.held, len(c.pending))
	}
}

// Source: [MS-SMB2 3.2.4.3]
func TestCreateErrors(t *testing.T) {
	tree, dir := mount(t, nil)
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "dir"), 0o700), os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		q    CreateRequest
		want error
	}{
		{CreateRequest{Name: "none", Access: 0x80, Share: 7, Disposition: 1}, fs.ErrNotExist},
		{CreateRequest{Name: "none/none", Access: 0x80, Share: 7, Disposition: 1}, fs.ErrNotExist},
		{CreateRequest{Name: "none", Access: 0x80, Share: 7, Disposition: 1, ResumeKey: true}, fs.ErrNotExist},
		{CreateRequest{Name: "file", Access: 0x80, Share: 7, Disposition: 2}, fs.ErrExist},
		{CreateRequest{Name: "dir", Access: 0x80, Share: 7, Disposition: 1, Options: 0x40}, syscall.EISDIR},
		{CreateRequest{Name: "file", Access: 0x80, Share: 7, Disposition: 1, Options: 1}, syscall.ENOTDIR},
	} {
		_, err := tree.Create(t.Context(), row.q)
		var e *Error
		if !errors.Is(err, row.want) || !errors.As(err, &e) || e.Status == 0 || e.Name != row.q.Name {
			t.Errorf("%+v: %v", row.q, err)
		}
	}
}

// What SMB would take for something else never goes on the wire.
//
// Source: [MS-FSCC 2.1.5]
func TestNames(t *testing.T) {
	tree, dir := mount(t, nil)
	for _, name := range []string{
		"/", "a/", "/a", "a//b", "..", "../x", "a/../b", "a/./b", `a\b`, "a:b", "a*", "a?", `a"`, "<", "a|", "a\x00b", "a\nb", "a\x80",
		strings.Repeat("x", maxElement+1), strings.Repeat("😀", maxElement/2+1),
	} {
		if _, err := tree.Stat(t.Context(), name); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("stat %q: %v", name, err)
		}
		if err := tree.Rename(t.Context(), "x", name, true); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("rename to %q: %v", name, err)
		}
	}
	for _, name := range []string{"plain", "with space", "ä€😀", "...", "-", strings.Repeat("x", maxElement)} {
		f := open(t, tree, readWrite(name))
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil || f.Name() != name || f.Info().Name != name {
			t.Error(err, f.Name(), f.Info().Name)
		}
	}
}

// Source: [MS-FSCC 2.4.2], [MS-FSCC 2.4.7], [MS-FSCC 2.4.14], [MS-FSCC 2.4.11], [MS-FSCC 2.4.42]
func TestInfo(t *testing.T) {
	tree, dir := mount(t, nil)
	f := open(t, tree, readWrite("f"))
	if f.Action() != 2 || f.Info().Size != 0 || f.Info().IsDir() || f.Info().ID == 0 {
		t.Errorf("%d %+v", f.Action(), f.Info())
	}
	modified := time.Date(2001, 2, 3, 4, 5, 6, 700, time.UTC)
	if err := errors.Join(
		f.SetEndOfFile(t.Context(), 1234),
		f.SetBasicInfo(t.Context(), time.Time{}, time.Time{}, modified, time.Time{}, 0),
		f.Flush(t.Context()),
	); err != nil {
		t.Fatal(err)
	}
	i, err := f.Stat(t.Context())
	if err != nil || i.Size != 1234 || !i.Modified.Equal(modified) || i.ID != f.Info().ID || i.Links != 1 || i.DeletePending || i.Name != "f" {
		t.Errorf("%+v, %v", i, err)
	}
	if err := f.SetEndOfFile(t.Context(), -1); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
	short, err := tree.Stat(t.Context(), "f")
	if err != nil || short.Size != i.Size || !short.Modified.Equal(modified) || short.ID != i.ID {
		t.Errorf("%+v, %v", short, err)
	}
	raw, err := f.QueryInfo(t.Context(), smbwire.InfoFile, uint8(smbwire.ClassEndOfFile+100), 0, 100)
	if raw != nil || err == nil {
		t.Errorf("%x %v", raw, err)
	}
	if err := errors.Join(f.Rename(t.Context(), "g", false), f.SetDeleteOnClose(t.Context(), true)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "g")); err != nil {
		t.Error(err)
	}
	if i, err := f.Stat(t.Context()); err != nil || !i.DeletePending {
		t.Error(i, err)
	}
	if err := errors.Join(f.Close(t.Context()), f.Close(t.Context())); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "g")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := f.Stat(t.Context()); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	if _, err := f.ReadAt(t.Context(), make([]byte, 1), 0); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	if _, err := f.Ioctl(t.Context(), smbwire.FsctlSrvRequestResumeKey, nil, 32); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
}

// Source: [MS-SMB2 3.2.4.1.4]
func TestOneRoundTrip(t *testing.T) {
	tree, dir := mount(t, nil)
	ctx := t.Context()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name string
		err  error
		want error
	}{
		{"mkdir", tree.Mkdir(ctx, "d"), nil},
		{"mkdir again", tree.Mkdir(ctx, "d"), fs.ErrExist},
		{"rename", tree.Rename(ctx, "a", "d/b", false), nil},
		{"rename what has gone", tree.Rename(ctx, "a", "d/b", false), fs.ErrNotExist},
		{"remove a full directory", tree.Remove(ctx, "d"), syscall.ENOTEMPTY},
		{"mkdir two", tree.Mkdir(ctx, "e"), nil},
		{"rename onto", tree.Rename(ctx, "d", "e", false), fs.ErrExist},
		{"remove", tree.Remove(ctx, "d/b"), nil},
		{"remove directory", tree.Remove(ctx, "d"), nil},
		{"remove nothing", tree.Remove(ctx, "d"), fs.ErrNotExist},
	} {
		if !errors.Is(step.err, step.want) || step.want == nil && step.err != nil {
			t.Errorf("%s: %v", step.name, step.err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "x"), []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "y"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tree.Rename(ctx, "x", "y", true); err != nil || contents(t, filepath.Join(dir, "y")) != "new" {
		t.Error(err)
	}
}

// The resume key is there after the round trip of the open, or one of its own;
// it names the pipe, since more room is offered than plain clients do.
//
// Source: [LWIO §Discovery], [LWIO claim 4], [OP-30], [OP-31], [OP-33]
func TestResumeKey(t *testing.T) {
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
	out, err := apart.Ioctl(t.Context(), smbwire.FsctlSrvRequestResumeKey, nil, smbwire.ResumeKeySize)
	if err != nil || len(out) != smbwire.ResumeKeySize || !bytes.Equal(out[24:], make([]byte, 8)) {
		t.Errorf("a plain client gets %x, %v", out, err)
	}
	if _, err := apart.Ioctl(t.Context(), 0x00099999, nil, 0); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if _, err := apart.Ioctl(t.Context(), 0, nil, tree.MaxTransact()+1); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
}

// Source: [MS-FSCC 2.3.45], [OP-34]
func TestPipe(t *testing.T) {
	addr, _ := startServer(t, nil)
	s := connect(t, addr, nil)
	ipc, err := s.TreeConnect(t.Context(), "IPC$")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ipc.OpenPipe(t.Context(), "nosuch"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	p := open(t, ipc, CreateRequest{Name: "reverse", Access: 0x0012019F, Share: shareAll, Disposition: 1})
	for _, in := range []string{"abc", string(random(60000))} {
		out, err := p.Transceive(t.Context(), []byte(in), 1<<16)
		slices.Reverse(out)
		if err != nil || string(out) != in {
			t.Errorf("%d bytes: %v", len(in), err)
		}
	}
	out, err := p.Transceive(t.Context(), []byte("abcdef"), 4)
	if string(out) != "fedc" || !errors.Is(err, ntstatus.BufferOverflow) {
		t.Errorf("%q, %v", out, err)
	}
}

// A call that hangs on the server ends with its context, the server is told, and
// the session goes on.
//
// Source: [MS-SMB2 3.2.4.24]
func TestCancel(t *testing.T) {
	addr, _ := startServer(t, nil)
	s := connect(t, addr, nil)
	ipc, err := s.TreeConnect(t.Context(), "IPC$")
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, ipc, CreateRequest{Name: "reverse", Access: 0x0012019F, Share: shareAll, Disposition: 1})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := p.Transceive(ctx, []byte("hang"), 100)
		failed <- err
	}()
	for pending := false; !pending; {
		s.conn.mu.Lock()
		for _, w := range s.conn.pending {
			pending = w.command == smbwire.CommandIoctl
		}
		s.conn.mu.Unlock()
	}
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := s.Echo(t.Context()); err != nil {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Echo(ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A file whose Close came too late is closed nevertheless.
//
// Source: [MS-SMB2 3.2.4.5]
func TestCloseWithEndedContext(t *testing.T) {
	tree, dir := mount(t, nil)
	f, err := tree.Create(t.Context(), readWrite("f"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.SetDeleteOnClose(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Close(ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		if _, err := os.Stat(filepath.Join(dir, "f")); errors.Is(err, fs.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the file was not closed")
		}
		if err := tree.s.Echo(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// Source: [MS-SMB2 3.2.4.17]
func TestReadDir(t *testing.T) {
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

// A file is what a slice in memory would be.
//
// Source: [MS-SMB2 3.2.4.6], [MS-SMB2 3.2.4.7]
func TestFileIsMemory(t *testing.T) {
	tree, _ := mount(t, nil)
	f := open(t, tree, readWrite("f"))
	rapid.Check(t, func(rt *rapid.T) {
		if err := f.SetEndOfFile(t.Context(), 0); err != nil {
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
				if err := f.SetEndOfFile(t.Context(), int64(n)); err != nil {
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
