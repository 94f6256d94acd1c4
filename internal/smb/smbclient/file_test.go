package smbclient

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// random returns n bytes of noise, the same each time.
func random(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(b)
	return b
}

// Reads and writes of many lengths, split to the limits of the server.
//
// Source: [MS-SMB2 3.2.4.6], [MS-SMB2 3.2.4.7]
func TestReadReturnsWrittenBytes(t *testing.T) {
	tree, dir := mount(t, nil)
	for _, n := range []int{0, 1, 4096, smbwire.CreditUnit, smbwire.CreditUnit + 1, maxPiece - 1, maxPiece, maxPiece + 1, 9*maxPiece + 5} {
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
func TestReadPastEOFReturnsShort(t *testing.T) {
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

// Many callers share a session with few credits.
//
// Source: [MS-SMB2 3.2.4.1.2]
func TestConcurrentCallsReturnTheirCredits(t *testing.T) {
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
	c.requests.mu.Lock()
	defer c.requests.mu.Unlock()
	c.credits.mu.Lock()
	defer c.credits.mu.Unlock()
	if c.credits.spent != 0 || c.credits.held < 1 || len(c.requests.byID) != 0 || len(c.credits.queue) != 0 {
		t.Errorf("%d credits spent, %d held, %d requests pending", c.credits.spent, c.credits.held, len(c.requests.byID))
	}
}

// Source: [MS-SMB2 3.2.4.3]
func TestCreateErrorsAreErrorsOfFS(t *testing.T) {
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
		var refused ntstatus.Status
		if !errors.Is(err, row.want) || !errors.As(err, &refused) {
			t.Errorf("%+v: %v", row.q, err)
		}
	}
}

// Names that SMB takes for something else are not sent.
//
// Source: [MS-FSCC 2.1.5]
func TestInvalidNamesAreRefusedBeforeTheWire(t *testing.T) {
	const maxElement = 255 // UTF-16 units
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
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil || f.Info().Name != name {
			t.Error(err, f.Info().Name)
		}
	}
}

// Source: [MS-FSCC 2.4.2], [MS-FSCC 2.4.7], [MS-FSCC 2.4.14], [MS-FSCC 2.4.11], [MS-FSCC 2.4.42]
func TestFileInformationIsReadAndChanged(t *testing.T) {
	tree, dir := mount(t, nil)
	f := open(t, tree, readWrite("f"))
	if f.Info().Size != 0 || f.Info().IsDir() || f.Info().ID == 0 {
		t.Errorf("%+v", f.Info())
	}
	modified := time.Date(2001, 2, 3, 4, 5, 6, 700, time.UTC)
	if err := errors.Join(
		f.SetSize(t.Context(), 1234),
		os.Chtimes(filepath.Join(dir, "f"), time.Time{}, modified),
		f.Flush(t.Context()),
	); err != nil {
		t.Fatal(err)
	}
	i, err := f.Stat(t.Context())
	if err != nil || i.Size != 1234 || !i.Modified.Equal(modified) || i.ID != f.Info().ID || i.Links != 1 || i.DeletePending || i.Name != "f" {
		t.Errorf("%+v, %v", i, err)
	}
	if err := f.SetSize(t.Context(), -1); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
	short, err := tree.Stat(t.Context(), "f")
	if err != nil || short.Size != i.Size || !short.Modified.Equal(modified) || short.ID != i.ID {
		t.Errorf("%+v, %v", short, err)
	}
	raw, err := f.queryInfo(t.Context(), smbwire.ClassEndOfFile+100, 100)
	if raw != nil || err == nil {
		t.Errorf("%x %v", raw, err)
	}
	if err := errors.Join(f.SetDelete(t.Context(), true), f.Keep(t.Context(), "g"), f.SetDelete(t.Context(), true)); err != nil {
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
	if _, err := f.ioctl(t.Context(), smbwire.FsctlSrvRequestResumeKey, nil, 32); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
}

// Source: [MS-SMB2 3.2.4.1.4]
func TestOpenAndCloseTakesOneRoundTrip(t *testing.T) {
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
		{"rename a moved file", tree.Rename(ctx, "a", "d/b", false), fs.ErrNotExist},
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
