package smbserver

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"lwio/internal/ntstatus"
)

func TestNewNeedsAFileSystem(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("a server without anything to serve")
	}
}

// Close cuts clients, closes their opens, and may be called again; a closed server serves no
// connection.
func TestCloseEndsSessionsAndOpens(t *testing.T) {
	s, addr, dir := testServer(t, nil)
	c := mount(t, addr, "data")
	c.mustCreate(create{name: "doomed", access: 0x10003, disposition: 2, options: 0x1040})
	ss := s.session(c.session)
	if st := s.Stats(); st.Connections != 1 || st.Sessions != 1 || st.Accepted != 1 {
		t.Errorf("stats %+v", st)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	c.wantCut()
	<-ss.Done()
	if _, err := os.Stat(filepath.Join(dir, "doomed")); !os.IsNotExist(err) {
		t.Errorf("open lives after Close: %v", err)
	}
	if st := s.Stats(); st.Connections != 0 || st.Sessions != 0 {
		t.Errorf("stats %+v", st)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); !errors.Is(err, net.ErrClosed) {
		t.Errorf("serve after close: %v", err)
	}
	a, b := net.Pipe()
	defer a.Close()
	s.ServeConn(b)
	if _, err := a.Read(make([]byte, 1)); err == nil {
		t.Error("a closed server keeps a connection")
	}
}

// heldPipe returns its result when the test releases it.
type heldPipe struct{ begun, release chan struct{} }

func (p heldPipe) Transact(ctx context.Context, _ *Session, request []byte, _ int) ([]byte, error) {
	p.begun <- struct{}{}
	select {
	case <-p.release:
		return request, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// held starts a server and a client with a request in flight. echo is half of
// another client's request.
func held(t *testing.T) (s *Server, p heldPipe, busy, idle, half *raw, echo []byte) {
	p = heldPipe{make(chan struct{}), make(chan struct{})}
	s, addr, _ := testServer(t, func(c *Config) { c.Pipes = map[string]PipeHandler{"lwio": p} })
	idle = mount(t, addr, "data")
	half = pipeTo(t, s)
	t.Cleanup(func() { half.nc.Close() })
	half.mustNegotiate(0x0311)
	half.mustSetup(testUser, testPassword)
	echo = half.frame(half.message(cmdEcho, []byte{4, 0, 0, 0}))
	half.write(echo[:1])
	half.write(echo[1:4]) // the server reads this and waits for the rest
	busy = mount(t, addr, "IPC$")
	id := busy.mustCreate(create{name: "lwio", access: 3, share: 7, disposition: 1})
	busy.send(busy.message(cmdIoctl, ioctlBody(id, fsctlTransceive, []byte("slow"), 1000)))
	<-p.begun
	if r := busy.recv()[0]; r.status != ntstatus.Pending {
		t.Fatal(r.status)
	}
	return s, p, busy, idle, half, echo[4:]
}

// Shutdown waits for requests that have arrived and for a message that has begun, and not
// for idle connections.
func TestShutdownWaitsForRequests(t *testing.T) {
	s, p, busy, idle, half, echo := held(t)
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(context.Background(), nil) }()
	idle.wantCut()
	half.write(echo)
	if r := half.recv()[0]; r.status != ntstatus.Success {
		t.Error(r.status)
	}
	half.wantCut()
	close(p.release)
	if r := busy.recv()[0]; r.status != ntstatus.Success || !bytes.HasSuffix(r.body, []byte("slow")) {
		t.Errorf("%v, %q", r.status, r.body)
	}
	busy.wantCut()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if st := s.Stats(); st.Connections != 0 || st.Sessions != 0 {
		t.Errorf("stats %+v", st)
	}
}

// Connections whose requests take longer than the context of Shutdown are cut.
func TestShutdownInTime(t *testing.T) {
	s, _, busy, idle, half, _ := held(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(ctx, nil) }()
	idle.wantCut()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("shutdown that had to cut: %v", err)
	}
	busy.wantCut()
	half.wantCut()
}

// Several clients read, write, create and delete concurrently.
func TestManyClientsReadAndWrite(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	var wg sync.WaitGroup
	for i := range 8 {
		c := mount(t, addr, "data")
		wg.Go(func() {
			for range 20 {
				name := string(rune('a' + i))
				id := c.mustCreate(rw(name))
				data := bytes.Repeat([]byte(name), 10000)
				c.want(ntstatus.Success, cmdWrite, writeBody(id, 0, data))
				if r := c.want(ntstatus.Success, cmdRead, readBody(id, 0, 20000, 0)); !bytes.Equal(r.body[16:], data) {
					t.Errorf("client %d read something else", i)
				}
				c.want(ntstatus.Success, cmdSetInfo, setBody(id, 1, 13, []byte{1}))
				c.want(ntstatus.Success, cmdClose, closeBody(id, 0))
			}
		})
	}
	wg.Wait()
	if n := s.cfg.FS.Stats().Opens; n != 0 {
		t.Errorf("%d opens are left", n)
	}
}

// A connection that has served many requests at a time returns to few goroutines.
func TestIdleWorkersEnd(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	c := mount(t, addr, "data")
	for range 8 {
		c.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	}
	var all []byte
	for range 200 {
		all = append(all, c.frame(c.message(cmdEcho, []byte{4, 0, 0, 0}))...)
	}
	c.write(all)
	for range 200 {
		c.recv()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns.All() {
		w := &conn.workers
		w.mu.Lock()
		if w.total > s.cfg.MaxWorkers+1 || w.total < 1 {
			t.Errorf("%d goroutines", w.total)
		}
		w.mu.Unlock()
	}
}

// Responses that are too long for one message are sent in several.
//
// Source: [MS-SMB2 2.1]
func TestLongResponsesOfACompoundAreSplit(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	c := mount(t, addr, "data")
	id := c.mustCreate(rw("f"))
	for i := range uint64(2) {
		m := c.charge(c.message(cmdWrite, writeBody(id, i<<19, make([]byte, 1<<19))), 8)
		c.send(m)
		if r := c.recv()[0]; r.status != 0 {
			t.Fatal(r.status)
		}
	}
	for range 8 {
		c.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	}
	const n = 17
	var msgs [][]byte
	for range n {
		m := c.message(cmdRead, readBody(id, 0, 1<<20, 0))
		msgs = append(msgs, c.charge(m, 16))
	}
	c.send(msgs...)
	frames, got := 0, 0
	for got < n {
		for _, r := range c.recv() {
			if r.status != 0 || len(r.body) < 16+1<<20 {
				t.Fatalf("response %d: %v, %d bytes", got, r.status, len(r.body))
			}
			got++
		}
		frames++
	}
	if frames != 2 {
		t.Errorf("%d messages", frames)
	}
}
