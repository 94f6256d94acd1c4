package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"lwio"
	"lwio/rsock"
)

// testProxy is 'lwio proxy' in this process.
type testProxy struct {
	at   string // as it printed it
	end  func() // interrupts it
	wait func() int
	log  *lockedBuffer
}

// startProxy runs a proxy until the test ends.
func startProxy(t *testing.T, flags ...string) *testProxy {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	p := &testProxy{end: cancel, log: new(lockedBuffer)}
	done := make(chan int, 1)
	go func() {
		a := &app{stdin: strings.NewReader(""), stdout: w, stderr: p.log, env: func(string) string { return "" }}
		done <- a.run(ctx, append([]string{"proxy"}, flags...))
		w.Close()
	}()
	p.wait = sync.OnceValue(func() int { return <-done })
	t.Cleanup(func() {
		cancel()
		if code := p.wait(); code != exitOK {
			t.Errorf("proxy: exit status %d\n%s", code, p.log)
		}
	})
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("the proxy printed nothing: %v\n%s", err, p.log)
	}
	p.at = strings.TrimSpace(line)
	return p
}

// replying is a server that reads all input of a client, and then answers it in capitals.
type replying struct {
	net.Listener
	rdma  atomic.Int64  // connections that came by RDMA
	first chan struct{} // closed when the first came
}

// startReplying listens with scheme until the test ends, and returns the address.
func startReplying(t *testing.T, scheme string) (s *replying, at string) {
	t.Helper()
	var nl net.Listener
	var err error
	switch scheme {
	case "rsock":
		nl, err = rsock.Listen("tcp", "127.0.0.1:0", &rsock.Config{Providers: lwio.DefaultProviders()})
	case "unix":
		nl, err = net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	default:
		nl, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		t.Fatal(err)
	}
	s = &replying{Listener: nl, first: make(chan struct{})}
	arrived := sync.OnceFunc(func() { close(s.first) })
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := nl.Accept()
			if err != nil {
				return
			}
			arrived()
			if r, ok := c.(*rsock.Conn); ok && r.Transport().RDMA() {
				s.rdma.Add(1)
			}
			wg.Go(func() {
				defer c.Close()
				if b, err := io.ReadAll(c); err == nil {
					_, _ = c.Write(bytes.ToUpper(b))
				}
			})
		}
	})
	t.Cleanup(func() { nl.Close(); wg.Wait() })
	return s, scheme + "://" + nl.Addr().String()
}

// dialAt connects to an address that a proxy printed.
func dialAt(t *testing.T, at string) net.Conn {
	t.Helper()
	c, err := tryAt(t, at)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// tryAt is dialAt with an error.
func tryAt(t *testing.T, at string) (c net.Conn, err error) {
	t.Helper()
	scheme, address, _ := strings.Cut(at, "://")
	if scheme == "rsock" {
		c, err = (&rsock.Dialer{Config: &rsock.Config{Providers: lwio.DefaultProviders(), RequireRDMA: true}}).Dial("tcp", address)
	} else {
		c, err = net.Dial(scheme, address)
	}
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.Close() })
	return c, nil
}

// A connection between every pair of addresses carries data and a half-close: the server
// answers after the end of its input.
func TestProxyCarriesHalfClose(t *testing.T) {
	text := bytes.Repeat([]byte("over there "), 100_000)
	for _, from := range []string{"tcp", "unix", "rsock"} {
		for _, to := range []string{"tcp", "unix", "rsock"} {
			t.Run(from+" to "+to, func(t *testing.T) {
				server, at := startReplying(t, to)
				listen := from + "://127.0.0.1:0"
				if from == "unix" {
					listen = "unix://" + filepath.Join(t.TempDir(), "p")
				}
				p := startProxy(t, "--listen", listen, "--to", at)
				c := dialAt(t, p.at)
				if _, err := c.Write(text); err != nil {
					t.Fatal(err)
				}
				if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(c)
				if err != nil || !bytes.Equal(got, bytes.ToUpper(text)) {
					t.Errorf("%d bytes came back, %v", len(got), err)
				}
				if want := to == "rsock"; (server.rdma.Load() > 0) != want {
					t.Errorf("%d connections by RDMA", server.rdma.Load())
				}
			})
		}
	}
}

// TestProxyPairCarriesPlainPrograms runs programs that know nothing of RDMA through two
// proxies.
func TestProxyPairCarriesPlainPrograms(t *testing.T) {
	_, at := startReplying(t, "tcp")
	far := startProxy(t, "--listen", "rsock://127.0.0.1:0", "--to", at, "--require-rdma")
	near := startProxy(t, "--listen", "tcp://127.0.0.1:0", "--to", far.at, "--require-rdma")
	c := dialAt(t, near.at)
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); err != nil || string(got) != "HELLO" {
		t.Errorf("got %q, %v", got, err)
	}
}

// An interrupted proxy takes no more connections, lets open ones end, and resets
// connections that last too long.
func TestInterruptedProxyDrains(t *testing.T) {
	t.Run("in good order", func(t *testing.T) {
		s, at := startReplying(t, "tcp")
		p := startProxy(t, "--listen", "rsock://127.0.0.1:0", "--to", at, "--drain", "1m")
		c := dialAt(t, p.at)
		if _, err := io.WriteString(c, "hello"); err != nil {
			t.Fatal(err)
		}
		<-s.first // the proxy has it
		p.end()
		address := strings.TrimPrefix(p.at, "rsock://")
		for { // until it no longer listens
			tcp, err := net.Dial("tcp", address)
			if err != nil {
				break
			}
			tcp.Close()
		}
		if err := c.(*rsock.Conn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(c); err != nil || string(got) != "HELLO" {
			t.Errorf("got %q, %v", got, err)
		}
		c.Close()
		if code := p.wait(); code != exitOK {
			t.Errorf("exit status %d", code)
		}
	})
	t.Run("by force", func(t *testing.T) {
		s, at := startReplying(t, "tcp")
		p := startProxy(t, "--listen", "rsock://127.0.0.1:0", "--to", at, "--drain", "50ms")
		c := dialAt(t, p.at)
		if _, err := io.WriteString(c, "hello"); err != nil {
			t.Fatal(err)
		}
		<-s.first // the proxy has it
		p.end()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read: %v", err)
		}
		if code := p.wait(); code != exitOK {
			t.Errorf("exit status %d", code)
		}
	})
}

// A client that cannot be connected, or whose peer resets, sees a reset.
func TestProxyPassesResets(t *testing.T) {
	nl, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := startProxy(t, "--listen", "rsock://127.0.0.1:0", "--to", "tcp://"+nl.Addr().String())
	c := dialAt(t, p.at)
	s, err := nl.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the server broke off: read %v", err)
	}
	nl.Close()
	p = startProxy(t, "--listen", "rsock://127.0.0.1:0", "--to", "tcp://127.0.0.1:1")
	if c, err = tryAt(t, p.at); err == nil { // the reset may come sooner than the answer
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("there is no server: %v", err)
	}
	if !strings.Contains(p.log.String(), "connection refused") {
		t.Errorf("the log does not say why:\n%s", p.log)
	}
}

func TestProxyBoundsConnections(t *testing.T) {
	_, at := startReplying(t, "tcp")
	p := startProxy(t, "--listen", "tcp://127.0.0.1:0", "--to", at, "--max-connections", "1")
	first, second := dialAt(t, p.at).(*net.TCPConn), dialAt(t, p.at).(*net.TCPConn)
	for _, c := range []*net.TCPConn{second, first} {
		if _, err := io.WriteString(c, "x"); err != nil {
			t.Fatal(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []*net.TCPConn{first, second} {
		if got, err := io.ReadAll(c); err != nil || string(got) != "X" {
			t.Errorf("got %q, %v", got, err)
		}
		c.Close()
	}
}

func TestProxyRefusesWrongFlags(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"--listen", "tcp://127.0.0.1:0"},
		{"--listen", "127.0.0.1:0", "--to", "tcp://127.0.0.1:1"},
		{"--listen", "http://127.0.0.1:0", "--to", "tcp://127.0.0.1:1"},
		{"--listen", "tcp://127.0.0.1", "--to", "tcp://127.0.0.1:1"},
		{"--listen", "unix://", "--to", "tcp://127.0.0.1:1"},
		{"--listen", "tcp://127.0.0.1:0", "--to", "rsock://nowhere"},
		{"--listen", "tcp://127.0.0.1:0", "--to", "tcp://127.0.0.1:1", "--provider", "carrier-pigeon"},
		{"--listen", "tcp://127.0.0.1:0", "--to", "tcp://127.0.0.1:1", "--max-connections", "0"},
		{"--listen", "tcp://127.0.0.1:0", "--to", "tcp://127.0.0.1:1", "--drain", "0s"},
		{"--listen", "tcp://127.0.0.1:0", "--to", "tcp://127.0.0.1:1", "more"},
	} {
		run(t, exitUsage, append([]string{"proxy"}, args...)...)
	}
	nl, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer nl.Close()
	r := run(t, exitFailure, "proxy", "--listen", "rsock://"+nl.Addr().String(), "--to", "tcp://127.0.0.1:1")
	if !strings.HasPrefix(r.err, "lwio: ") || !strings.Contains(r.err, "address already in use") {
		t.Errorf("stderr: %s", r.err)
	}
	run(t, exitFailure, "proxy", "--listen", "rsock://127.0.0.1:0", "--to", "tcp://127.0.0.1:1", "--provider", "none", "--require-rdma")
}
