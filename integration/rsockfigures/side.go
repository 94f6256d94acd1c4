package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"lwio/integration/internal/measure"
	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/shm"
	"lwio/rsock"
)

// job is what the two processes of a run do.
type job struct {
	Bench string // a key of benches
	Via   string // "unix", "tcp", or a provider
	Spin  bool   // look for progress all the time instead of sleeping
	Futex bool   // sleep on a futex, with shm's BlockingWait, not in the network poller
	Size  int    // bytes of one operation
	Conns int    // connections, where there are several
	Count int    // operations measured
	Heavy bool   // much goes through each connection, and then it rests
	// Congestion is the congestion control of TCP, "" the system's.
	Congestion string

	Active bool   // which of the two this is
	Peer   string // for the active one, where the passive one is
}

// outcome is what one process measured.
type outcome struct {
	Ops       int
	Took, CPU time.Duration
	Memory    int64 // bytes that came with all connections
}

// side is this process in a run.
type side struct {
	job
	outcome  outcome
	listener net.Listener
	dialer   rsock.Dialer
}

// benches are the benchmarks; each is run by both processes.
var benches = map[string]func(*side) error{
	"ping":   (*side).ping,
	"stream": (*side).stream,
	"http":   (*side).http,
	"idle":   (*side).idle,
}

// playSide is the main function of one of the two processes.
func playSide(text string) error {
	var s side
	if err := json.Unmarshal([]byte(text), &s.job); err != nil {
		return err
	}
	bench := benches[s.Bench]
	if bench == nil {
		return fmt.Errorf("there is no benchmark %q", s.Bench)
	}
	s.dialer.Config = s.config()
	if !s.Active {
		if err := s.listen(); err != nil {
			return err
		}
		fmt.Println(s.listener.Addr())
	}
	if err := bench(&s); err != nil {
		return fmt.Errorf("active %v: %w", s.Active, err)
	}
	return json.NewEncoder(os.Stdout).Encode(s.outcome)
}

// config is that of sockets over RDMA.
func (s *side) config() *rsock.Config {
	cfg := &rsock.Config{RequireRDMA: true, HandshakeTimeout: stall, Linger: stall}
	switch s.Via {
	case shm.Name:
		cfg.Providers = []rdma.Provider{shm.New(&shm.Config{BlockingWait: s.Futex})}
	case iwarp.Name:
		cfg.Providers = []rdma.Provider{iwarp.New(&iwarp.Config{CRC: iwarp.CRCOff})}
	}
	if s.Spin {
		cfg.BusyPoll = -1
	}
	return cfg
}

func (s *side) listen() (err error) {
	switch s.Via {
	case "unix":
		s.listener, err = net.Listen("unix", "") // at a name that the system picks, and no file has
	case "tcp":
		lc := net.ListenConfig{Control: measure.Congestion(s.Congestion)}
		s.listener, err = lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	default:
		s.listener, err = rsock.Listen("tcp", "127.0.0.1:0", s.config())
	}
	return err
}

// dial connects the active side, by RDMA if the job says so.
func (s *side) dial(ctx context.Context) (net.Conn, error) {
	if s.Via == "unix" || s.Via == "tcp" {
		d := net.Dialer{Control: measure.Congestion(s.Congestion)}
		return d.DialContext(ctx, s.Via, s.Peer)
	}
	c, err := s.dialer.DialConn(ctx, "tcp", s.Peer)
	if err != nil {
		return nil, err
	}
	if t := c.Transport(); t.Name != s.Via {
		return nil, errors.Join(fmt.Errorf("the connection goes by %v", t), c.Close())
	}
	return c, nil
}

// connect makes the one connection of a job, on either side.
func (s *side) connect() (c net.Conn, err error) {
	if s.Active {
		c, err = s.dial(context.Background())
	} else {
		c, err = s.listener.Accept()
	}
	if tcp, ok := c.(*net.TCPConn); ok && s.Spin {
		return spinning(tcp)
	}
	return c, err
}

// spinner is a TCP connection whose calls spin.
type spinner struct {
	*net.TCPConn
	by measure.Spinner
}

func spinning(c *net.TCPConn) (net.Conn, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	s := &spinner{TCPConn: c}
	return s, raw.Control(func(fd uintptr) { s.by = measure.Spinner(fd) })
}

func (s *spinner) Read(p []byte) (int, error)  { return s.by.Read(p) }
func (s *spinner) Write(p []byte) (int, error) { return s.by.Write(p) }

// phases runs f for a tenth of the operations, and then measures it for all.
func (s *side) phases(f func(ops int) error) error {
	if err := f(max(s.Count/10, 1)); err != nil {
		return err
	}
	cpu, start := measure.SelfCPU(), time.Now()
	err := f(s.Count)
	s.outcome = outcome{Ops: s.Count, Took: time.Since(start), CPU: measure.SelfCPU() - cpu}
	return err
}
