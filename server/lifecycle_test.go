package server

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma/iwarp"
	"lwio/vfs"
)

// gated is an env over a gate, with a client that has a file registered.
func gatedEnv(t *testing.T, ec envConfig) (*gate, *env, *rawClient, *vfs.Open, uint16) {
	t.Helper()
	b := newGate(t)
	ec.backend = b
	v := newEnv(t, ec)
	b.make("a", content(1<<20))
	b.make("other", []byte("other"))
	c := v.client()
	o := v.open("a", vfs.ReadData|vfs.WriteData, 0, v.sess)
	return b, v, c, o, c.register(o)
}

// serves demands that another client is served.
func (v *env) serves() {
	v.t.Helper()
	sess := newFakeSession(99)
	n := v.negotiate(sess)
	c := v.connect(n)
	c.auth(n, authOptions{})
	o := v.open("other", vfs.ReadData, 0, sess)
	defer o.Close()
	c.want(ntstatus.Success, 5, c.readHeader(c.register(o), 0, 100, 0), nil)
	c.connector.Close()
}

// The answer to a CLOSE comes behind those of all that was in flight, and what
// comes later finds no file.
//
// Source: [LWIO §Close] [OP-94d] [OP-94e] [OP-55]
func TestCloseIsABarrier(t *testing.T) {
	b, v, c, o, fid := gatedEnv(t, envConfig{})
	b.shut()
	var cookies []uint64
	for i := range 6 {
		cookies = append(cookies, c.send(c.readHeader(fid, 0, 4096, i*4096), nil))
		cookies = append(cookies, c.send(writeHeader(fid, uint64(i), 4), []byte("data")))
	}
	closing := c.send(controlHeader(wire.OpClose, fid), nil)
	refused := c.send(c.readHeader(fid, 0, 4096, 0), nil)
	again := c.send(controlHeader(wire.OpClose, fid), nil)
	for _, cookie := range []uint64{refused, again} {
		if s := c.reply(); s.Cookie != cookie || s.Status != uint32(ntstatus.FileClosed) {
			t.Fatalf("%+v, want FILE_CLOSED for %d", s, cookie)
		}
	}
	b.open()
	left := map[uint64]bool{}
	for _, cookie := range cookies {
		left[cookie] = true
	}
	for range cookies {
		s := c.reply()
		if !left[s.Cookie] || s.Status != 0 {
			t.Fatalf("%+v before what was in flight was answered", s)
		}
		delete(left, s.Cookie)
	}
	if s := c.reply(); s.Cookie != closing || s.Status != 0 {
		t.Fatalf("%+v, want the answer to CLOSE", s)
	}
	if again := c.register(o); again == fid {
		t.Error("a file id came back at once")
	}
	v.serves()
}

// CANCEL ends what nobody has begun with, before it is answered itself; what is
// being done is done.
//
// Source: [LWIO §Cancel] [OP-94a] [OP-94b] [OP-94c]
func TestCancel(t *testing.T) {
	b, v, c, o, fid := gatedEnv(t, envConfig{limits: Limits{Workers: 1}})
	second := c.register(o)
	b.shut()
	running := c.send(c.readHeader(fid, 0, 4096, 0), nil)
	eventually(t, "the worker is busy", func() bool { return b.waiting() == 1 })
	spared := c.send(c.readHeader(second, 0, 4096, 0), nil)
	queued := []uint64{
		c.send(c.readHeader(fid, 0, 4096, 0), nil), c.send(c.readHeader(fid, 0, 4096, 0), nil),
	}
	cancel := c.send(controlHeader(wire.OpCancel, fid), nil)
	for range queued {
		s := c.reply()
		if s.Status != uint32(ntstatus.Cancelled) || s.Cookie != queued[0] && s.Cookie != queued[1] {
			t.Fatalf("%+v, want a cancelled read", s)
		}
	}
	if s := c.reply(); s.Cookie != cancel || s.Status != 0 {
		t.Fatalf("%+v, want the answer to CANCEL", s)
	}
	b.open()
	for range 2 {
		if s := c.reply(); s.Status != 0 || s.Cookie != running && s.Cookie != spared {
			t.Fatalf("%+v, want a read that was not cancelled", s)
		}
	}
	c.want(ntstatus.Success, 4096, c.readHeader(fid, 0, 4096, 0), nil)
	v.serves()
}

// Reads that wait for memory are cancelled too, and those that are not get it.
//
// Source: [OP-94b]
func TestWaitForMemory(t *testing.T) {
	b, v, c, o, fid := gatedEnv(t, envConfig{
		limits: Limits{MaxRdmaWindowSize: 64 << 10, ReadBufferBytes: 256 << 10},
	})
	second := c.register(o)
	b.shut()
	first := c.send(c.readHeader(fid, 0, 64<<10, 0), nil)
	eventually(t, "a read is in progress", func() bool { return b.waiting() == 1 })
	var left []uint64
	for i := range 8 {
		left = append(left, c.send(c.readHeader(second, 0, 64<<10, i), nil))
	}
	for range 3 {
		c.send(c.readHeader(fid, 0, 64<<10, 0), nil)
	}
	cancel := c.send(controlHeader(wire.OpCancel, fid), nil)
	for range 3 {
		if s := c.reply(); s.Status != uint32(ntstatus.Cancelled) {
			t.Fatalf("%+v, want a cancelled read", s)
		}
	}
	if s := c.reply(); s.Cookie != cancel {
		t.Fatalf("%+v, want the answer to CANCEL", s)
	}
	b.open()
	for range len(left) + 1 {
		if s := c.reply(); s.Status != 0 || s.Information != 64<<10 {
			t.Fatalf("%+v (first %d)", s, first)
		}
	}
	v.serves()
	if c.v.e.fabrics[0].arena.queue.head != nil {
		t.Error("somebody still waits")
	}
}

// The close of the SMB handle waits for what is in flight and refuses the rest.
//
// Source: [OP-58] [OP-58b]
func TestRevoke(t *testing.T) {
	b, v, c, o, fid := gatedEnv(t, envConfig{})
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
func TestRevokeStalls(t *testing.T) {
	b, v, c, o, fid := gatedEnv(t, envConfig{revoke: 20 * time.Millisecond})
	b.shut()
	c.send(c.readHeader(fid, 0, 4096, 0), nil)
	eventually(t, "a read is in progress", func() bool { return b.waiting() == 1 })
	o.Close()
	c.wantCut()
	b.open()
	v.serves()
}

// The end of the SMB session ends its connections, also in the middle of I/O,
// and its keys; other sessions' stay.
//
// Source: [OP-42] [OP-58]
func TestSessionEnds(t *testing.T) {
	b, v, c, o, fid := gatedEnv(t, envConfig{})
	n := v.negotiate(v.sess)
	b.shut()
	c.send(c.readHeader(fid, 0, 4096, 0), nil)
	eventually(t, "a read is in progress", func() bool { return b.waiting() == 1 })
	v.sess.end()
	c.wantCut()
	b.open()
	v.fs.CloseOwner(v.sess)
	if o.Acquire() == nil {
		t.Error("an open outlived its session")
	}
	late := v.connect(n)
	msg, _ := late.authMessage(n, authOptions{})
	late.wantDenied(msg)
	v.serves()
}

// A disconnect in the middle of I/O leaves nothing behind.
//
// Source: [OP-94f]
func TestDisconnectDuringIO(t *testing.T) {
	b, v, c, o, fid := gatedEnv(t, envConfig{limits: Limits{Workers: 2}})
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
	eventually(t, "the connection is gone", func() bool { return v.e.count.connections.Load() == 0 })
	if err := o.Close(); err != nil {
		t.Error(err)
	}
	v.serves()
}

// pending counts the I/O requests of all connections.
func (v *env) pending() (n int) {
	v.e.mu.Lock()
	defer v.e.mu.Unlock()
	for c := range v.e.conns {
		c.mu.Lock()
		n += c.pending
		c.mu.Unlock()
	}
	return n
}

// What nobody had begun with when the connection ended is not done.
//
// Source: [OP-94f]
func TestDisconnectCancels(t *testing.T) {
	b, v, c, _, fid := gatedEnv(t, envConfig{limits: Limits{Workers: 1}})
	b.make("a", nil)
	b.shut()
	for i := range 4 {
		c.send(writeHeader(fid, uint64(4*i), 4), []byte("data"))
	}
	eventually(t, "one write is in progress, and the others wait", func() bool {
		return b.waiting() == 1 && v.pending() == 4
	})
	c.connector.Close()
	eventually(t, "nothing is queued", func() bool {
		v.e.writers.mu.Lock()
		defer v.e.writers.mu.Unlock()
		return v.e.writers.queue.empty()
	})
	b.open()
	eventually(t, "the connection is gone", func() bool { return v.e.count.connections.Load() == 0 })
	if got, err := os.ReadFile(filepath.Join(b.dir, "a")); err != nil || string(got) != "data" {
		t.Errorf("the file holds %q, %v", got, err)
	}
}

// Source: [LWIO §File Registration] [OP-50i] [OP-52b] [OP-56] [OP-59]
func TestRegisterRules(t *testing.T) {
	v := newEnv(t, envConfig{limits: Limits{FilesPerConnection: 3}})
	c := v.client()
	o := v.file("a", content(10))
	change := func(f func(p *wire.FIDParams)) (wire.Header, []byte) {
		h, _ := c.registerMessage(o)
		p := wire.FIDParams{ResumeKey: o.ResumeKey(), SessionID: c.sessionID}
		f(&p)
		return h, p.AppendTo(nil)
	}
	h, body := change(func(p *wire.FIDParams) { p.SessionID[7] ^= 1 })
	c.want(ntstatus.AccessDenied, 0, h, body)
	h, body = change(func(p *wire.FIDParams) { p.ResumeKey[0] ^= 1 })
	c.want(ntstatus.ObjectNameNotFound, 0, h, body)
	theirs := v.open("b", vfs.ReadData, 0, newFakeSession(5))
	h, body = change(func(p *wire.FIDParams) { p.ResumeKey = theirs.ResumeKey() })
	c.want(ntstatus.ObjectNameNotFound, 0, h, body)
	dir, _, err := v.fs.Open(vfs.OpenRequest{
		Share: "share", Access: vfs.ReadData, Owner: v.sess, ShareMode: 7,
		Disposition: vfs.OpenExisting, Options: vfs.DirectoryFile,
	})
	if err != nil {
		t.Fatal(err)
	}
	h, body = change(func(p *wire.FIDParams) { p.ResumeKey = dir.ResumeKey() })
	c.want(ntstatus.FileIsADirectory, 0, h, body)
	h, body = change(func(p *wire.FIDParams) { p.FlagsAndAttributes = 0xFFFFFFFF })
	if s := c.call(h, body); s.Status != 0 {
		t.Errorf("flags that differ: %v", ntstatus.Status(s.Status))
	}
	first, second := c.register(o), c.register(o)
	h, body = change(func(*wire.FIDParams) {})
	c.want(ntstatus.TooManyOpenedFiles, 0, h, body)
	c.want(ntstatus.Success, 0, controlHeader(wire.OpClose, first), nil)
	c.want(ntstatus.Success, 10, c.readHeader(second, 0, 100, 0), nil)
	c.want(ntstatus.FileClosed, 0, c.readHeader(first, 0, 100, 0), nil)
	v.check(c)
}

// Source: [LWIO §Write] [OP-92f]
func TestWriteFails(t *testing.T) {
	b, v, c, _, fid := gatedEnv(t, envConfig{})
	for _, f := range []struct {
		err    error
		status ntstatus.Status
	}{
		{syscall.ENOSPC, ntstatus.DiskFull},
		{syscall.EACCES, ntstatus.AccessDenied},
		{syscall.EFBIG, ntstatus.FileTooLarge},
		{syscall.EIO, ntstatus.UnexpectedIOError},
		{ntstatus.Pending, ntstatus.InternalError}, // [OP-90]
	} {
		b.fail = f.err
		c.want(f.status, 0, writeHeader(fid, 0, 4), []byte("data"))
	}
	b.fail = nil
	c.want(ntstatus.Success, 4, writeHeader(fid, 0, 4), []byte("data"))
	v.serves()
}

// A wake-up comes with the next completion, at once if the client has missed
// one, and there is one at a time.
//
// Source: [LWIO §Wakeup] [OP-93a] [OP-93c] [OP-93d] [OP-93e] [OP-93f]
func TestInterrupt(t *testing.T) {
	b, v, c, _, fid := gatedEnv(t, envConfig{})
	const at = 1 << 20
	polled := func() {
		h := c.readHeader(fid, 0, 4096, 0)
		h.Flags = 0
		h.IosVa, h.IosMh = c.in.RemoteAddr().Addr+at, uint32(c.in.RemoteAddr().Token)
		c.send(h, nil)
	}
	// Nothing was missed: the answer waits.
	b.shut()
	polled()
	arm := c.send(wire.NewInterrupt(0, 1), nil)
	c.want(ntstatus.DeviceBusy, 0, wire.NewInterrupt(0, 1), nil)
	b.open()
	if s := c.reply(); s.Cookie != arm || s.Status != 0 {
		t.Fatalf("%+v, want the wake-up", s)
	}
	if bytes.Equal(c.in.Bytes()[at:at+8], make([]byte, 8)) {
		t.Error("woken before the completion")
	}
	// One of two is complete, and the client has not seen it: the answer comes
	// at once.
	c.want(ntstatus.Success, 0, wire.NewInterrupt(0, 1), nil)
	b.shut()
	polled()
	c.want(ntstatus.Success, 0, wire.NewInterrupt(0, 2), nil)
	// A count that is saturated cannot be compared.
	arm = c.send(wire.NewInterrupt(0, 300), nil)
	c.want(ntstatus.DeviceBusy, 0, wire.NewInterrupt(0, 300), nil)
	b.open()
	if s := c.reply(); s.Cookie != arm {
		t.Fatalf("%+v, want the wake-up", s)
	}
	v.serves()
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

// A client that does not take what is sent to it is cut, and what it held comes
// free.
func TestStall(t *testing.T) {
	ear := newGate(t)
	v := newEnv(t, envConfig{limits: Limits{StallTimeout: 40 * time.Millisecond}})
	v.provider = iwarp.New(&iwarp.Config{
		Dial: func(ctx context.Context, _, remote *net.TCPAddr) (net.Conn, error) {
			nc, err := new(net.Dialer).DialContext(ctx, "tcp", remote.String())
			return &deafConn{nc, ear}, err
		},
	})
	c := v.client()
	t.Cleanup(ear.open)
	fid := c.register(v.file("a", content(512<<10)))
	ear.shut()
	for range clientCredits - 1 {
		c.send(c.readHeader(fid, 0, 512<<10, 0), nil)
	}
	eventually(t, "the connection is cut", func() bool { return v.e.count.cut.Load() == 1 })
	eventually(t, "the connection is gone", func() bool { return v.e.count.connections.Load() == 0 })
	ear.open()
	a := v.e.fabrics[0].arena
	a.mu.Lock()
	defer a.mu.Unlock()
	for range len(a.free.units) >> a.free.top {
		if _, ok := a.free.alloc(a.free.top); !ok {
			t.Fatal("memory is lost")
		}
	}
}

// Shutdown lets what is in flight finish.
func TestDrain(t *testing.T) {
	b, v, c, _, fid := gatedEnv(t, envConfig{})
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
func TestReplacedConnection(t *testing.T) {
	b, v, c, _, fid := gatedEnv(t, envConfig{})
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
	v.renegotiate(v.sess, n)
	next.wantCut()
	if v.e.count.connections.Load() != 0 {
		t.Error("a fenced connection is left")
	}
	v.serves()
}
