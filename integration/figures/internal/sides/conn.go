package sides

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"lwio/integration/internal/measure"
	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/shm"
	"lwio/rsock"
)

// fabric is a provider, and the address at which it listens.
type fabric struct {
	provider func() rdma.Provider
	local    rdma.Addr
}

// providers are the providers under test.
var providers = map[string]fabric{
	"shm":            {func() rdma.Provider { return shm.New(nil) }, rdma.Addr{Fabric: shm.Name}},
	"shm, blocking":  {func() rdma.Provider { return shm.New(&shm.Config{BlockingWait: true}) }, rdma.Addr{Fabric: shm.Name}},
	"iwarp":          {func() rdma.Provider { return iwarp.New(nil) }, loopback},
	"iwarp, CRC off": {func() rdma.Provider { return iwarp.New(&iwarp.Config{CRC: iwarp.CRCOff}) }, loopback},
}

var loopback = rdma.IPAddr(iwarp.Name, netip.MustParseAddrPort("127.0.0.1:0"))

// stall bounds the time without progress of an rsock connection.
const stall = time.Minute

// config is the configuration of sockets over RDMA.
func (s *side) config() *rsock.Config {
	cfg := &rsock.Config{
		RequireRDMA: true, HandshakeTimeout: stall, Linger: stall,
		Providers: []rdma.Provider{providers[s.Via].provider()},
	}
	if s.Spin {
		cfg.BusyPoll = time.Hour // no sleep
	}
	return cfg
}

// listen makes the listener of the passive side and prints its address.
func (s *side) listen() (l net.Listener, err error) {
	switch {
	case s.Via == "unix":
		l, err = net.Listen("unix", "") // at an abstract name that the system chooses
	case s.Via == "tcp":
		lc := net.ListenConfig{Control: measure.Congestion(s.Congestion)}
		l, err = lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	case providers[s.Via].provider == nil:
		err = fmt.Errorf("there is no provider %q", s.Via)
	default:
		l, err = rsock.Listen("tcp", "127.0.0.1:0", s.config())
	}
	if err != nil {
		return nil, err
	}
	return l, s.ready(l.Addr().String())
}

// dial returns a function that connects the active side, over RDMA if the job says so.
func (s *side) dial() (func(ctx context.Context) (net.Conn, error), error) {
	var addr string
	if err := s.peer(&addr); err != nil {
		return nil, err
	}
	if s.Via == "unix" || s.Via == "tcp" {
		d := net.Dialer{Control: measure.Congestion(s.Congestion)}
		return func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, s.Via, addr) }, nil
	}
	d := rsock.Dialer{Config: s.config()}
	return func(ctx context.Context) (net.Conn, error) {
		c, err := d.DialConn(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		if t := c.Transport(); t.Name != d.Config.Providers[0].Name() {
			return nil, errors.Join(fmt.Errorf("the connection goes over %v", t), c.Close())
		}
		return c, nil
	}, nil
}

// connector returns a function that makes one connection of the job after another, on either
// side.
func (s *side) connector() (func() (net.Conn, error), error) {
	if s.Active {
		dial, err := s.dial()
		return func() (net.Conn, error) { return dial(context.Background()) }, err
	}
	l, err := s.listen()
	if err != nil {
		return nil, err
	}
	return l.Accept, nil
}

// withConn calls f with the one connection of a job. If the job spins, a TCP connection
// spins around the scheduler of Go.
func (s *side) withConn(f func(c io.ReadWriter) error) error {
	connect, err := s.connector()
	if err != nil {
		return err
	}
	c, err := connect()
	if err != nil {
		return err
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok || !s.Spin {
		return errors.Join(f(c), c.Close())
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return errors.Join(err, c.Close())
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = f(measure.Spinner(fd)) })
	return errors.Join(err, inner, c.Close())
}
