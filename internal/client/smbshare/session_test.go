package smbshare_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lwio/internal/client/base"
	"lwio/internal/client/smbshare"
	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/internal/test/faultconn"
	"lwio/lwiotest"
)

// signIn makes a session with a share of s, with the changes of the target and the configuration.
func signIn(t *testing.T, s *lwiotest.Server, change func(to *base.Target, cfg *base.Config)) (smbshare.Session, net.Conn, error) {
	t.Helper()
	to, err := base.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	cfg := (&base.Config{}).WithDefaults()
	if err := cfg.Apply(to); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(to, &cfg)
	}
	raw, err := cfg.DialContext(t.Context(), "tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	sess, err := smbshare.NewSession(t.Context(), raw, to, &cfg)
	if err == nil {
		t.Cleanup(func() { sess.Close(t.Context()) })
	}
	return sess, raw, err
}

// connect makes a session with the share of s.
func connect(t *testing.T, s *lwiotest.Server) smbshare.Session {
	t.Helper()
	sess, _, err := signIn(t, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sess
}

// create opens a new file, which the end of the test closes.
func create(t *testing.T, sess smbshare.Session, name string) smbshare.Handle {
	t.Helper()
	h, err := sess.Open(t.Context(), smbshare.OpenRequest{
		Name: name, Access: smbshare.AccessRead | smbshare.AccessWrite | smbshare.AccessDelete, Share: smbshare.ShareAll,
		Disposition: smbshare.DispositionCreate, Options: smbshare.OptionNonDirectory,
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A session that cannot be made closes the TCP connection.
//
// Source: [MS-SMB2 3.2]
func TestNewSessionRefusesAndClosesTheConnection(t *testing.T) {
	s := lwiotest.NewServer(t, &lwiotest.Config{SMBOnly: true})
	for name, c := range map[string]struct {
		change func(to *base.Target, cfg *base.Config)
		err    error
		text   string
	}{
		"password": {func(_ *base.Target, cfg *base.Config) { cfg.Password = "other" }, fs.ErrPermission, ""},
		"share":    {func(to *base.Target, _ *base.Config) { to.Share = "nosuch" }, fs.ErrNotExist, ""},
		"pipes":    {func(to *base.Target, _ *base.Config) { to.Share = "IPC$" }, nil, "holds pipes"},
		"address":  {func(to *base.Target, _ *base.Config) { to.Host = "host" }, nil, "missing port"},
	} {
		_, raw, err := signIn(t, s, c.change)
		if err == nil || c.err != nil && !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := raw.Write([]byte{0}); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: the connection is open: %v", name, err)
		}
	}
}

// A server that dies in the middle of WriteWhole leaves the temporary file. The session removes it after the repetition.
func TestWriteWholeRemovesFileOfDeadServer(t *testing.T) {
	s := lwiotest.NewServer(t, &lwiotest.Config{SMBOnly: true})
	link := new(faultconn.Link)
	sess, _, err := signIn(t, s, func(_ *base.Target, cfg *base.Config) { cfg.DialContext = link.DialContext })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sess.WriteWhole(t.Context(), smbshare.WholeFile{Name: "first", Data: []byte("first")}, func() string { return "other" }); err != nil {
		t.Fatal(err)
	}
	var given []string
	temporary := func() string {
		name := fmt.Sprint("part", len(given))
		if given = append(given, name); len(given) == 1 {
			lost := false
			link.Judge(func(uint16) faultconn.Fate {
				if lost {
					return faultconn.Pass
				}
				lost = true
				if err := os.WriteFile(filepath.Join(s.Dir, name), []byte("ne"), 0o600); err != nil { // as a server that is killed next
					t.Error(err)
				}
				return faultconn.LoseRequest
			})
		}
		return name
	}
	can, err := sess.WriteWhole(t.Context(), smbshare.WholeFile{Name: "f", Data: []byte("new")}, temporary)
	if !can || err != nil || len(given) != 2 {
		t.Fatalf("%v, %v, temporary names %q", can, err, given)
	}
	list, err := os.ReadDir(s.Dir)
	if err != nil || len(list) != 2 || list[0].Name() != "f" || list[1].Name() != "first" {
		t.Errorf("%v, %v", list, err)
	}
}

// The calls about names change the share, and return errors of package fs.
func TestSessionChangesNames(t *testing.T) {
	sess := connect(t, lwiotest.NewServer(t, &lwiotest.Config{SMBOnly: true}))
	ctx := t.Context()
	if err := errors.Join(sess.Mkdir(ctx, "d"), sess.Mkdir(ctx, "d/e"), sess.Rename(ctx, "d/e", "d/g"), create(t, sess, "d/f").Close(ctx)); err != nil {
		t.Fatal(err)
	}
	if e, err := sess.Stat(ctx, "d/g"); err != nil || !e.IsDir() {
		t.Errorf("%+v, %v", e, err)
	}
	d, err := sess.Open(ctx, smbshare.OpenRequest{Name: "d", Access: smbshare.AccessRead, Share: smbshare.ShareAll,
		Disposition: smbshare.DispositionOpen, Options: smbshare.OptionDirectory})
	if err != nil {
		t.Fatal(err)
	}
	list, err := d.Entries(ctx)
	var names []string
	for _, e := range list {
		names = append(names, e.Name)
	}
	if slices.Sort(names); err != nil || !slices.Equal(names, []string{"f", "g"}) {
		t.Errorf("%q, %v", names, err)
	}
	for name, c := range map[string]struct{ err, want error }{
		"mkdir of a name that exists": {sess.Mkdir(ctx, "d"), fs.ErrExist},
		"remove of no name":           {sess.Remove(ctx, "x"), fs.ErrNotExist},
		"rename of no name":           {sess.Rename(ctx, "x", "y"), fs.ErrNotExist},
	} {
		if !errors.Is(c.err, c.want) || base.IsUncertain(c.err) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	if err := errors.Join(d.Close(ctx), sess.Remove(ctx, "d/f"), sess.Remove(ctx, "d/g"), sess.Remove(ctx, "d")); err != nil {
		t.Error(err)
	}
	if _, err := sess.Stat(ctx, "d"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// A handle reads back its writes, and changes size, name and life of its file.
func TestHandleChangesItsFile(t *testing.T) {
	sess := connect(t, lwiotest.NewServer(t, &lwiotest.Config{SMBOnly: true}))
	ctx, h := t.Context(), create(t, sess, "f")
	want := bytes.Repeat([]byte("0123456789"), 20_000)
	if n, err := h.WriteAt(ctx, want, 3); n != len(want) || err != nil {
		t.Fatal(n, err)
	}
	got := make([]byte, len(want)+5)
	if n, err := h.ReadAt(ctx, got, 3); n != len(want) || !errors.Is(err, io.EOF) || !bytes.Equal(got[:n], want) {
		t.Error(n, err)
	}
	if err := errors.Join(flushed(ctx, h), h.Settle(ctx), h.SetSize(ctx, 10), h.Keep(ctx, "g")); err != nil {
		t.Error(err)
	}
	if e, err := h.Stat(ctx); err != nil || e.Size != 10 || h.Created().Size != 0 || e.Attributes&smbwire.AttributeDirectory != 0 {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := sess.Stat(ctx, "g"); err != nil || e.Size != 10 {
		t.Errorf("%+v, %v", e, err)
	}
	if err := errors.Join(h.SetDelete(ctx, true), h.Close(ctx)); err != nil {
		t.Error(err)
	}
	if _, err := sess.Stat(ctx, "g"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the file was not deleted when it was closed:", err)
	}
}

// A range that one handle has locked is refused to another until it is unlocked.
func TestHandleLocksRanges(t *testing.T) {
	s := lwiotest.NewServer(t, &lwiotest.Config{SMBOnly: true})
	sess, ctx := connect(t, s), t.Context()
	h := create(t, sess, "f")
	other, err := connect(t, s).Open(ctx, smbshare.OpenRequest{Name: "f", Access: smbshare.AccessRead | smbshare.AccessWrite,
		Share: smbshare.ShareAll, Disposition: smbshare.DispositionOpen})
	if err != nil {
		t.Fatal(err)
	}
	r := smbshare.Range{Off: 5, Len: 10}
	if err := h.Lock(ctx, r, true, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := other.Lock(ctx, r, false, false, nil); !errors.Is(err, ntstatus.LockNotGranted) {
		t.Error(err)
	}
	if err := errors.Join(h.Unlock(ctx, r, nil), other.Lock(ctx, r, true, true, nil), other.Close(ctx), h.Close(ctx)); err != nil {
		t.Error(err)
	}
}

// The resume key of a file says whether the server offers LWIO, and each open has its own.
//
// Source: [LWIO §Discovery], [OP-30], [OP-33], [OP-46b]
func TestResumeKeySaysWhetherLWIOIsOffered(t *testing.T) {
	for _, smbOnly := range []bool{false, true} {
		sess := connect(t, lwiotest.NewServer(t, &lwiotest.Config{SMBOnly: smbOnly}))
		var keys [2][24]byte
		for i, name := range []string{"f", "g"} {
			h := create(t, sess, name)
			key, lwio, err := h.ResumeKey(t.Context(), i == 1)
			if err != nil || lwio == smbOnly {
				t.Errorf("offered %v, %v", lwio, err)
			}
			keys[i] = key
			if err := h.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if keys[0] == keys[1] {
			t.Error("two opens have one key")
		}
		p, err := sess.OpenPipe(t.Context(), "lwio")
		if smbOnly != errors.Is(err, fs.ErrNotExist) || p == nil != smbOnly {
			t.Errorf("pipe of a server with SMB only %v: %v", smbOnly, err)
		}
		if key, keyed := sess.ApplicationKey(); !keyed || len(key) != 16 {
			t.Errorf("an application key of %d bytes", len(key))
		}
	}
}

// A session that is closed fails all calls as closed, also a second Close.
func TestClosedSessionFailsCalls(t *testing.T) {
	sess := connect(t, lwiotest.NewServer(t, &lwiotest.Config{SMBOnly: true}))
	if err := sess.Err(); err != nil {
		t.Error(err)
	}
	if err := sess.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := sess.Stat(t.Context(), ""); !errors.Is(err, net.ErrClosed) || sess.Err() == nil {
		t.Error(err, sess.Err())
	}
	if err := sess.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// flushed is Flush without a deadline.
func flushed(ctx context.Context, h smbshare.Handle) error {
	_, err := h.Flush(ctx)
	return err
}
