package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/seal"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/vfs"
)

// The close of the SMB handle waits for I/O in flight and refuses new I/O.
//
// Source: [OP-58] [OP-58b]
func TestSMBCloseWaitsForIOInFlight(t *testing.T) { onEach(t, testSMBCloseWaitsForIOInFlight) }

func testSMBCloseWaitsForIOInFlight(t *testing.T, on string) {
	b, v, c, o, fid := gatedEnv(t, envConfig{on: on})
	b.shut()
	cookie := c.send(writeHeader(fid, 0, 4), []byte("data"))
	eventually(t, "a write is in progress", func() bool { return b.waiting() == 1 })
	closed := make(chan error, 1)
	go func() { closed <- o.Close() }()
	eventually(t, "the file is revoked", func() bool { return v.e.count.files.Load() == 0 })
	c.want(ntstatus.FileClosed, 0, c.readHeader(fid, 0, 10, 0), nil)
	select {
	case <-closed:
		t.Fatal("closed with I/O in flight")
	default:
	}
	b.open()
	if s := c.reply(); s.Cookie != cookie || s.Status != 0 || s.Information != 4 {
		t.Errorf("the write in flight: %+v", s)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	c.want(ntstatus.FileClosed, 0, controlHeader(wire.OpClose, fid), nil)
	h, body := c.registerMessage(o)
	c.want(ntstatus.ObjectNameNotFound, 0, h, body)
	v.serves()
}

// I/O that does not come back in time costs the client its connection.
//
// Source: [OP-58b]
func TestSMBCloseCutsStalledIO(t *testing.T) { onEach(t, testSMBCloseCutsStalledIO) }

func testSMBCloseCutsStalledIO(t *testing.T, on string) {
	b, v, c, o, fid := gatedEnv(t, envConfig{on: on, revoke: 20 * time.Millisecond})
	b.shut()
	c.send(c.readHeader(fid, 0, 4096, 0), nil)
	eventually(t, "a read is in progress", func() bool { return b.waiting() == 1 })
	o.Close()
	c.wantCut()
	b.open()
	v.serves()
}

// The same holds for I/O of a file that the client has closed over LWIO before.
//
// Source: [OP-58b] [OP-94d]
func TestSMBCloseCutsStalledIOOfClosedFile(t *testing.T) {
	onEach(t, testSMBCloseCutsStalledIOOfClosedFile)
}

func testSMBCloseCutsStalledIOOfClosedFile(t *testing.T, on string) {
	b, v, c, o, fid := gatedEnv(t, envConfig{on: on, revoke: 20 * time.Millisecond})
	b.shut()
	c.send(c.readHeader(fid, 0, 4096, 0), nil)
	eventually(t, "a read is in progress", func() bool { return b.waiting() == 1 })
	c.send(controlHeader(wire.OpClose, fid), nil)
	eventually(t, "the file is closed", func() bool { return v.e.count.closes.Load() == 1 })
	var served *conn
	v.e.conns.each(func(c *conn) { served = c })
	o.Close()
	if got := served.cause(); !errors.Is(got, errRevokeStall) {
		t.Fatalf("cut because of %v, want %v", got, errRevokeStall)
	}
	c.wantCut()
	b.open()
	v.serves()
}

// Answers that the client does not receive cost it the connection: until they are sent, RDMA writes
// for the open can reach the client's memory.
//
// Source: [OP-58b]
func TestSMBCloseCutsClientThatDoesNotReceive(t *testing.T) {
	ear := newEar(t)
	v := newEnv(t, envConfig{revoke: 20 * time.Millisecond, limits: Limits{MaxCredits: clientCredits, ReadBufferBytes: 128 << 20}})
	v.provider = deafProvider(ear)
	c := v.client()
	t.Cleanup(ear.open)
	o := v.file("a", content(512<<10))
	fid := c.register(o)
	ear.shut()
	for range clientCredits - 1 {
		c.send(c.readHeader(fid, 0, 512<<10, 0), nil)
	}
	eventually(t, "all is answered, and not all sent", func() bool {
		return v.e.count.ops[wire.OpRead].ops.Load() == clientCredits-1 && v.pending() == 0 && v.unsent() > 0
	})
	o.Close()
	eventually(t, "the connection is cut", func() bool { return v.e.count.cut.Load() == 1 })
}

// The end of the SMB session ends its connections, also in the middle of I/O,
// and its keys; other sessions' stay.
//
// Source: [OP-42] [OP-58]
func TestSessionEndCutsConnections(t *testing.T) { onEach(t, testSessionEndCutsConnections) }

func testSessionEndCutsConnections(t *testing.T, on string) {
	b, v, c, o, fid := gatedEnv(t, envConfig{on: on})
	n := v.negotiate(v.sess)
	b.shut()
	c.send(c.readHeader(fid, 0, 4096, 0), nil)
	eventually(t, "a read is in progress", func() bool { return b.waiting() == 1 })
	v.sess.end()
	c.wantCut()
	b.open()
	if n := v.e.count.cut.Load(); n != 0 {
		t.Errorf("%d connections count as cut", n)
	}
	eventually(t, "the connection is lost", func() bool { return v.e.count.lost.Load() == 1 })
	v.fs.CloseOwner(v.sess)
	if o.Acquire() == nil {
		t.Error("an open outlived its session")
	}
	late := v.connect(n)
	msg, _ := late.authMessage(n, authOptions{})
	late.wantDenied(msg)
	v.serves()
}

// The connections of a client that logs off do not count as lost, though the server may receive
// the LOGOFF before it notices their end.
//
// Source: [OP-58]
func TestLogoffIsNoLoss(t *testing.T) { onEach(t, testLogoffIsNoLoss) }

func testLogoffIsNoLoss(t *testing.T, on string) {
	_, v, c, _, _ := gatedEnv(t, envConfig{on: on})
	v.sess.left = true
	v.sess.end()
	c.wantCut()
	eventually(t, "the connection is gone", v.deserted)
	if lost, cut := v.e.count.lost.Load(), v.e.count.cut.Load(); lost+cut != 0 {
		t.Errorf("%d connections lost, %d cut", lost, cut)
	}
}

// A disconnect in the middle of I/O leaves nothing behind.
//
// Source: [OP-94f]
func TestDisconnectDuringIOLeavesNothing(t *testing.T) {
	onEach(t, testDisconnectDuringIOLeavesNothing)
}

func testDisconnectDuringIOLeavesNothing(t *testing.T, on string) {
	b, v, c, o, fid := gatedEnv(t, envConfig{on: on, limits: Limits{Workers: 2}})
	b.shut()
	for i := range 20 {
		c.send(c.readHeader(fid, 0, 64<<10, i), nil)
		if i < 5 {
			c.send(writeHeader(fid, 0, 4), []byte("data"))
		}
	}
	c.send(controlHeader(wire.OpClose, fid), nil)
	c.connector.Close()
	b.open()
	eventually(t, "the connection is gone", v.deserted)
	if err := o.Close(); err != nil {
		t.Error(err)
	}
	v.serves()
}

// unsent counts the answers of all connections that wait to be posted.
func (v *env) unsent() (n int) {
	v.e.conns.each(func(c *conn) {
		c.send.mu.Lock()
		defer c.send.mu.Unlock()
		for o := c.send.outbox.head; o != nil; o = o.next {
			n++
		}
	})
	return n
}

// pending counts the I/O requests of all connections.
func (v *env) pending() (n int) {
	v.e.conns.each(func(c *conn) { n += int(c.send.wakeups.pending.Load()) })
	return n
}

// I/O that no worker had started when the connection ended is not performed.
//
// Source: [OP-94f]
func TestDisconnectCancelsQueuedIO(t *testing.T) { onEach(t, testDisconnectCancelsQueuedIO) }

func testDisconnectCancelsQueuedIO(t *testing.T, on string) {
	b, v, c, _, fid := gatedEnv(t, envConfig{on: on, limits: Limits{Workers: 1}})
	b.make("a", nil)
	b.shut()
	for i := range 4 {
		c.send(writeHeader(fid, uint64(8*i), 4), []byte("data")) // no two in one run
	}
	eventually(t, "one write is in progress, and the others wait", func() bool {
		return b.waiting() == 1 && v.pending() == 4
	})
	c.connector.Close()
	eventually(t, "nothing is queued", func() bool {
		return v.e.writers.length() == 0
	})
	b.open()
	eventually(t, "the connection is gone", v.deserted)
	if got, err := os.ReadFile(filepath.Join(b.dir, "a")); err != nil || string(got) != "data" {
		t.Errorf("the file holds %q, %v", got, err)
	}
}

// deafConn is a connection whose end can stop reading.
type deafConn struct {
	net.Conn
	gate *gate
}

func (d *deafConn) Read(p []byte) (int, error) {
	d.gate.pass()
	return d.Conn.Read(p)
}

// newEar returns the gate of deafConns.
func newEar(t *testing.T) *gate {
	t.Helper()
	ear := newGate(t)
	t.Cleanup(func() { ear.Close() })
	return ear
}

// deafProvider returns a provider that connects by deafConns.
func deafProvider(ear *gate) rdma.Provider {
	return iwarp.New(&iwarp.Config{
		Dial: func(ctx context.Context, _, remote *net.TCPAddr) (net.Conn, error) {
			nc, err := new(net.Dialer).DialContext(ctx, "tcp", remote.String())
			if tcp, ok := nc.(*net.TCPConn); ok {
				err = tcp.SetReadBuffer(64 << 10) // the system takes little on its own
			}
			return &deafConn{nc, ear}, err
		},
	})
}

// A client that does not receive is cut off, and its resources are freed.
func TestStalledClientIsCut(t *testing.T) {
	ear := newEar(t)
	v := newEnv(t, envConfig{limits: Limits{StallTimeout: 40 * time.Millisecond}})
	v.provider = deafProvider(ear)
	c := v.client()
	t.Cleanup(ear.open)
	fid := c.register(v.file("a", content(512<<10)))
	ear.shut()
	for range clientCredits - 1 {
		c.send(c.readHeader(fid, 0, 512<<10, 0), nil)
	}
	v.e.startWatching() // sooner it might cut a client that is only slow
	eventually(t, "the connection is cut", func() bool { return v.e.count.cut.Load() == 1 })
	eventually(t, "the connection is gone", v.deserted)
	ear.open()
	a := v.e.fabrics[0].buffers
	a.mu.Lock()
	defer a.mu.Unlock()
	for range len(a.bytes) / blockUnit {
		if _, ok := a.free.Alloc(0); !ok {
			t.Fatal("memory is lost")
		}
	}
}

// Shutdown answers the I/O in flight.
func TestShutdownAnswersIOInFlight(t *testing.T) { onEach(t, testShutdownAnswersIOInFlight) }

func testShutdownAnswersIOInFlight(t *testing.T, on string) {
	b, v, c, _, fid := gatedEnv(t, envConfig{on: on})
	n := v.negotiate(v.sess)
	idle := v.client()
	b.shut()
	cookie := c.send(writeHeader(fid, 0, 4), []byte("data"))
	eventually(t, "a write is in progress", func() bool { return b.waiting() == 1 })
	drained := make(chan error, 1)
	go func() { drained <- v.e.drain(context.Background()) }()
	idle.wantCut()
	if _, err := v.tryConnect(n); err == nil {
		t.Error("a new connection while shutting down")
	}
	b.open()
	if s := c.reply(); s.Cookie != cookie || s.Status != 0 || s.Information != 4 {
		t.Errorf("%+v", s)
	}
	c.wantCut()
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// Source: [OP-112]
func TestNewConnectionReplacesOld(t *testing.T) { onEach(t, testNewConnectionReplacesOld) }

func testNewConnectionReplacesOld(t *testing.T, on string) {
	b, v, c, _, fid := gatedEnv(t, envConfig{on: on})
	b.shut()
	c.send(writeHeader(fid, 0, 4), []byte("data"))
	eventually(t, "a write is in progress", func() bool { return b.waiting() == 1 })
	n := v.negotiate(v.sess)
	next := v.connect(n)
	msg, _ := next.authMessage(n, authOptions{mutate: func(p *wire.AuthParams) { p.PreviousSessionID = &c.sessionID }})
	next.raw(msg)
	c.wantCut()
	if v.e.count.authenticated.Load() != 1 {
		t.Error("the new connection was let in while the old one writes")
	}
	b.open()
	if s := next.reply(); s.Status != 0 {
		t.Errorf("AUTH: %+v", s)
	}
	// A NEGOTIATE with the same client key does the same.
	v.renegotiate(v.sess, n, v.on)
	next.wantCut()
	if v.e.count.connections.Load() != 0 {
		t.Error("a fenced connection is left")
	}
	v.serves()
}

// endedConnector is the connector of a connection that has ended, or not if err is nil.
type endedConnector struct {
	rdma.Connector
	err error
}

func (e endedConnector) Err() error { return e.err }

// A post after the end of a connection does not change the cause of the end. A close on the network is the
// client's on a plain connection after AUTH only.
func TestLatePostKeepsCauseOfEnd(t *testing.T) {
	late := fmt.Errorf("post send: %w", rdma.StatusConnectionInvalid)
	aborted := fmt.Errorf("%w: %w", net.ErrClosed, syscall.ECONNABORTED)
	for _, test := range []struct{ cut, end, want error }{
		{late, net.ErrClosed, errClientLeft},
		{late, aborted, aborted},
		{late, nil, late},
		{errStalled, net.ErrClosed, errStalled},
		{errShutdown, net.ErrClosed, errShutdown},
	} {
		c := conn{connector: endedConnector{err: test.end}}
		c.auth.passed = true
		c.ctx, c.cancel = context.WithCancelCause(t.Context())
		c.cut(test.cut)
		if got := c.cause(); !errors.Is(got, test.want) || !errors.Is(test.want, got) {
			t.Errorf("cut because of %v, ended by %v: %v", test.cut, test.end, got)
		}
		if !errors.Is(test.want, errClientLeft) {
			continue
		}
		c.sealing.in = new(seal.Receiver)
		if got := c.cause(); !errors.Is(got, errCutOff) {
			t.Errorf("a sealed connection: %v", got)
		}
		c.auth.passed = false
		if got := c.cause(); !errors.Is(got, errLeftEarly) {
			t.Errorf("before AUTH: %v", got)
		}
	}
}

// A REGISTER on a connection whose lineage has ended ends the connection without an answer, even before
// the association ends it: the open belongs to a later session of the client, over whose connections it
// can be registered.
//
// Source: [OP-42] [OP-56]
func TestRegisterAfterEndOfLineageHasNoAnswer(t *testing.T) {
	onEach(t, testRegisterAfterEndOfLineageHasNoAnswer)
}

func testRegisterAfterEndOfLineageHasNoAnswer(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	entered, release := make(chan struct{}), make(chan struct{})
	var held atomic.Bool
	v.sess.hold = func() {
		if held.CompareAndSwap(false, true) { // the association, before it ends the connection
			close(entered)
			<-release
		}
	}
	c := v.client()
	o := v.open("f", vfs.ReadData|vfs.WriteData, 0, newFakeSession(2))
	defer o.Close()
	v.sess.end()
	<-entered
	h, body := c.registerMessage(o)
	c.send(h, body)
	c.wantCut()
	close(release)
}
