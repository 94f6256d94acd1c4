package rsock

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
)

// pairOf returns a connection from d to l. The test closes both ends when it ends.
func pairOf(t *testing.T, d *Dialer, l *Listener) (dialed, accepted *Conn) {
	t.Helper()
	c, err := d.DialConn(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	a, err := l.AcceptConn()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return c, a
}

// listenOn listens with lc until the test ends.
func listenOn(t *testing.T, lc *ListenConfig, address string) *Listener {
	t.Helper()
	l, err := lc.Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestNoProvidersMeansTCP(t *testing.T) {
	l := listenOn(t, &ListenConfig{}, "127.0.0.1:0")
	c, a := pairOf(t, new(Dialer), l)
	if got := c.Transport().String(); got != TransportTCP || c.Transport().RDMA() {
		t.Errorf("transport of the dialed end: %q", got)
	}
	if got := a.Transport().String(); got != TransportTCP {
		t.Errorf("transport of the accepted end: %q", got)
	}
	if c.LocalAddr().String() != a.RemoteAddr().String() || c.RemoteAddr().String() != l.Addr().String() {
		t.Errorf("addresses: %v to %v, %v from %v", c.LocalAddr(), c.RemoteAddr(), a.LocalAddr(), a.RemoteAddr())
	}
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(a); string(got) != "hello" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if _, err := c.WriteUrgent([]byte("!")); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("urgent data over TCP: %v", err)
	}
	if _, err := c.ReadUrgent(make([]byte, 1)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("urgent data over TCP: %v", err)
	}
	if _, err := c.SyscallConn(); err != nil {
		t.Error(err)
	}
}

func TestOtherNetworksAreUnknown(t *testing.T) {
	for _, network := range []string{"udp", "unix", "tcp5", ""} {
		var unknown net.UnknownNetworkError
		if _, err := new(Dialer).Dial(network, "127.0.0.1:1"); !errors.As(err, &unknown) {
			t.Errorf("dial %q: %v", network, err)
		}
		if _, err := Listen(network, "127.0.0.1:0", nil); !errors.As(err, &unknown) {
			t.Errorf("listen %q: %v", network, err)
		}
	}
}

func TestDialWithoutListenerIsRefused(t *testing.T) {
	l := listenOn(t, &ListenConfig{}, "127.0.0.1:0")
	l.Close()
	_, err := new(Dialer).Dial("tcp", l.Addr().String())
	var op *net.OpError
	if !errors.Is(err, syscall.ECONNREFUSED) || !errors.As(err, &op) {
		t.Errorf("dial: %v", err)
	}
}

func TestClosedListenerFailsCalls(t *testing.T) {
	l := listenOn(t, &ListenConfig{}, "127.0.0.1:0")
	accept := make(chan error)
	go func() {
		_, err := l.Accept()
		accept <- err
	}()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-accept; !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept: %v", err)
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second close: %v", err)
	}
}

func TestRefusedTCPIsReset(t *testing.T) {
	asked := make(chan *Request, 1)
	l := listenOn(t, &ListenConfig{Admit: func(r *Request) bool { asked <- r; return false }}, "127.0.0.1:0")
	c, err := new(Dialer).DialConn(t.Context(), "tcp", l.Addr().String())
	if err == nil {
		defer c.Close()
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("dial and read: %v", err)
	}
	r := <-asked
	if r.Transport != TransportTCP || r.LocalAddr.String() != l.Addr().String() || !r.RemoteAddr.IP.IsLoopback() {
		t.Errorf("request: %+v", r)
	}
}
