package smbclient

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"lwio/internal/test/leakcheck"

	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbserver"
	"lwio/internal/smb/smbwire"
	"lwio/vfs"
	"lwio/vfs/posix"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

const (
	testUser     = "user"
	testPassword = "pässword"
)

// unc is the context in the resume keys of the test server.
const unc = `\\server\pipe\lwio`

// lookup has one user.
func lookup(_, user string) (string, [16]byte, bool) {
	return user, smbauth.NTHash(testPassword), user == testUser
}

// reverse is a pipe that returns the bytes in reverse order; "hang" blocks until the client
// cancels.
type reverse struct{}

func (reverse) Transact(ctx context.Context, _ *smbserver.Session, request []byte, _ int) ([]byte, error) {
	if string(request) == "hang" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	out := make([]byte, len(request))
	for i, b := range request {
		out[len(out)-1-i] = b
	}
	return out, nil
}

// startServer serves a new directory as the share "data".
func startServer(tb testing.TB, change func(*smbserver.Config)) (addr, dir string) {
	tb.Helper()
	dir = tb.TempDir()
	backend, err := posix.OpenDir(dir)
	if err != nil {
		tb.Fatal(err)
	}
	files, err := vfs.New(vfs.Config{Shares: []vfs.Share{{Name: "data", Backend: backend}}})
	if err != nil {
		tb.Fatal(err)
	}
	context, err := smbwire.UTF16(unc)
	if err != nil {
		tb.Fatal(err)
	}
	cfg := smbserver.Config{
		FS: files, Lookup: lookup, Pipes: map[string]smbserver.PipeHandler{"reverse": reverse{}},
		AuthTimeout:      time.Minute,
		ResumeKeyContext: func() []byte { return context },
	}
	if change != nil {
		change(&cfg)
	}
	s, err := smbserver.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	tb.Cleanup(func() {
		if err := errors.Join(s.Close(), files.Close()); err != nil {
			tb.Error(err)
		}
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			tb.Error(err)
		}
	})
	return l.Addr().String(), dir
}

// connect opens a session with the server.
func connect(tb testing.TB, addr string, change func(*Config)) *Session {
	tb.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		tb.Fatal(err)
	}
	cfg := Config{User: testUser, Password: testPassword}
	if change != nil {
		change(&cfg)
	}
	s, err := New(tb.Context(), nc, "127.0.0.1", cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// mount connects to the share of a new server.
func mount(tb testing.TB, change func(*Config)) (t *Tree, dir string) {
	tb.Helper()
	addr, dir := startServer(tb, nil)
	t, err := connect(tb, addr, change).TreeConnect(tb.Context(), "data")
	if err != nil {
		tb.Fatal(err)
	}
	return t, dir
}

// readWrite opens or creates a file with all rights.
func readWrite(name string) CreateRequest {
	return CreateRequest{Name: name, Access: 0x0013019F, Share: shareAll, Disposition: 3, Options: 0x40}
}

// open opens or creates a file that is closed at the end of the test.
func open(tb testing.TB, t *Tree, q CreateRequest) *File {
	tb.Helper()
	f, err := t.Create(tb.Context(), q)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := f.Close(context.Background()); err != nil && t.s.Err() == nil {
			tb.Error(err)
		}
	})
	return f
}

func contents(tb testing.TB, name string) string {
	tb.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

// echo sends one ECHO.
func echo(ctx context.Context, s *Session) error {
	return s.conn.run(ctx, request{command: smbwire.CommandEcho, body: smbwire.Empty{}})
}
