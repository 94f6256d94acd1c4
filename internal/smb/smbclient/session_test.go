package smbclient

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"strings"
	"sync"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbserver"
	"lwio/internal/smb/smbwire"
)

// Each dialect has its signing algorithm and, where it exists, the validation of the
// negotiation.
//
// Source: [MS-SMB2 3.2.4.2], [MS-SMB2 3.2.5.5], [MS-SMB2 3.1.4.2]
func TestDialectsAndSigningAreNegotiated(t *testing.T) {
	addr, _ := startServer(t, nil)
	for _, row := range []struct {
		offer   []uint16
		dialect uint16
		signing string
	}{
		{nil, smbwire.Dialect311, "AES-128-GMAC"},
		{[]uint16{smbwire.Dialect311}, smbwire.Dialect311, "AES-128-GMAC"},
		{[]uint16{smbwire.Dialect302, smbwire.Dialect300}, smbwire.Dialect302, "AES-128-CMAC"},
		{[]uint16{smbwire.Dialect300}, smbwire.Dialect300, "AES-128-CMAC"},
		{[]uint16{smbwire.Dialect210, 0x9999}, smbwire.Dialect210, "HMAC-SHA256"},
	} {
		s := connect(t, addr, func(c *Config) { c.Dialects = row.offer })
		if s.Dialect() != row.dialect || s.neg.signing.String() != row.signing {
			t.Errorf("%#x: %#x %s", row.offer, s.Dialect(), s.neg.signing.String())
		}
		tree, err := s.TreeConnect(t.Context(), "data")
		if err != nil {
			t.Fatalf("%#x: %v", row.dialect, err)
		}
		if _, err := tree.Stat(t.Context(), ""); err != nil {
			t.Error(err)
		}
		if err := errors.Join(echo(t.Context(), s), tree.Disconnect(t.Context())); err != nil {
			t.Error(err)
		}
	}
}

// Client and server derive the same keys, which are not sent.
//
// Source: [OP-46b], [MS-SMB2 3.1.4.2]
func TestApplicationKeyIsTheSameOnBothSides(t *testing.T) {
	keys := make(chan [16]byte, 1)
	addr, _ := startServer(t, func(c *smbserver.Config) {
		c.Pipes = map[string]smbserver.PipeHandler{"key": keyPipe(keys)}
	})
	s := connect(t, addr, nil)
	ipc, err := s.TreeConnect(t.Context(), "IPC$")
	if err != nil || !ipc.IsPipe() {
		t.Fatal(err)
	}
	p, err := s.OpenPipe(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Transact(t.Context(), []byte("?"), 10); err != nil {
		t.Fatal(err)
	}
	if key := <-keys; key != s.ApplicationKey() || key == [16]byte{} {
		t.Errorf("the keys are %x and %x", key, s.ApplicationKey())
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

type keyPipe chan [16]byte

func (k keyPipe) Transact(_ context.Context, s *smbserver.Session, _ []byte, _ int) ([]byte, error) {
	k <- s.ApplicationKey()
	return []byte("!"), nil
}

// Source: [MS-SMB2 3.2.5.3], [MS-NLMP 3.2.5.1.2]
func TestRefusedLogonIsErrPermission(t *testing.T) {
	addr, _ := startServer(t, nil)
	for _, cfg := range []Config{{User: testUser, Password: "wrong"}, {User: "nobody", Password: testPassword}} {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_, err = New(t.Context(), nc, "host", cfg)
		var e *Error
		if !errors.Is(err, fs.ErrPermission) || !errors.As(err, &e) || e.Status != ntstatus.LogonFailure || e.Op != "logon" || e.Name != "host" {
			t.Errorf("%v", err)
		}
		if strings.Contains(err.Error(), cfg.Password) {
			t.Errorf("the password is in %q", err)
		}
		if _, err := nc.Write([]byte{0}); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the connection was left open: %v", err)
		}
	}
}

// Source: [MS-SMB2 3.2.4.2]
func TestNTHashIsEnough(t *testing.T) {
	addr, _ := startServer(t, nil)
	_, hash, _ := lookup("", testUser)
	connect(t, addr, func(c *Config) { c.Password, c.NTHash = "", &hash })
}

// Source: [MS-SMB2 3.2.5.5]
func TestUnknownShareIsNotExist(t *testing.T) {
	addr, _ := startServer(t, nil)
	s := connect(t, addr, nil)
	_, err := s.TreeConnect(t.Context(), "nosuch")
	if !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, ntstatus.BadNetworkName) {
		t.Error(err)
	}
	if _, err := s.TreeConnect(t.Context(), "a\x00b"); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
	if err := echo(t.Context(), s); err != nil {
		t.Error("the session is broken:", err)
	}
}

// Source: [MS-SMB2 3.2.4.23]
func TestCloseEndsAllCallsAndGoroutines(t *testing.T) {
	tree, _ := mount(t, nil)
	s := tree.s
	f := open(t, tree, readWrite("f"))
	if s.Err() != nil {
		t.Error(s.Err())
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	<-s.conn.end.down
	_, err := f.ReadAt(t.Context(), make([]byte, 1), 0)
	for _, err := range []error{err, s.Err(), echo(t.Context(), s), f.Close(t.Context()), tree.Disconnect(t.Context())} {
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("%v", err)
		}
	}
}

// Source: [MS-SMB2 3.2.7.1]
func TestOperationsFailAfterConnectionLoss(t *testing.T) {
	addr, _ := startServer(t, nil)
	relay := newRelay(t, addr)
	s := connect(t, relay.addr, nil)
	tree, err := s.TreeConnect(t.Context(), "data")
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, tree, readWrite("f"))
	relay.cut()
	_, err = f.WriteAt(t.Context(), make([]byte, 10), 0)
	if !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	<-s.conn.end.down
	if err := s.Err(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// relay passes bytes between a client and a server until it is cut.
type relay struct {
	addr string
	cut  func()
}

func newRelay(t *testing.T, to string) relay {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	wg.Go(func() {
		from, err := l.Accept()
		if err != nil {
			return
		}
		onward, err := net.Dial("tcp", to)
		if err != nil {
			from.Close()
			return
		}
		context.AfterFunc(ctx, func() { from.Close(); onward.Close() })
		wg.Go(func() { pass(onward, from) })
		pass(from, onward)
	})
	stop := func() { l.Close(); cancel(); wg.Wait() }
	t.Cleanup(stop)
	return relay{l.Addr().String(), stop}
}

func pass(to, from net.Conn) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if _, e := to.Write(b[:n]); err != nil || e != nil {
			from.Close()
			to.Close()
			return
		}
	}
}
