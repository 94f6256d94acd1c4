package server

import (
	"bytes"
	"syscall"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/vfs"
)

// gatedEnv is an env over a gate, with a client that has a file registered.
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

// serves demands that a further client is served.
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

// The answer to a CLOSE follows those of all I/O in flight, and later I/O finds no file.
//
// Source: [LWIO §Close] [OP-94d] [OP-94e] [OP-55]
func TestCloseIsABarrier(t *testing.T) { onEach(t, testCloseIsABarrier) }

func testCloseIsABarrier(t *testing.T, on string) {
	b, v, c, o, fid := gatedEnv(t, envConfig{on: on})
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
			t.Fatalf("%+v before the I/O in flight was answered", s)
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

// CANCEL ends the I/O that no worker has started, before it is answered itself; started I/O is
// performed, and later I/O too.
//
// Source: [LWIO §Cancel] [OP-7] [OP-94a] [OP-94b] [OP-94c]
func TestCancelEndsQueuedIO(t *testing.T) { onEach(t, testCancelEndsQueuedIO) }

func testCancelEndsQueuedIO(t *testing.T, on string) {
	b, v, c, o, fid := gatedEnv(t, envConfig{on: on, limits: Limits{Workers: 1}})
	second := c.register(o)
	b.shut()
	running := c.send(c.readHeader(fid, 0, 4096, 0), nil)
	eventually(t, "the worker is busy", func() bool { return b.waiting() == 1 })
	spared := c.send(c.readHeader(second, 0, 4096, 0), nil)
	queued := []uint64{
		c.send(c.readHeader(fid, 0, 4096, 0), nil), c.send(c.readHeader(fid, 0, 4096, 0), nil),
	}
	const blockAt = 2 << 20
	polled := c.readHeader(fid, 0, 4096, 0)
	polled.Flags &^= wire.FlagInterrupt
	polled.IosVa, polled.IosMh = c.in.RemoteAddr().Addr+blockAt, uint32(c.in.RemoteAddr().Token)
	copy(c.in.Bytes()[blockAt:], wire.PendingBlock().AppendTo(nil))
	c.send(polled, nil)
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
	if b := statusBlock(c.in.Bytes()[blockAt:]); b.Status != uint32(ntstatus.Cancelled) || b.Information != 0 {
		t.Errorf("the block of a polled read that was cancelled: %+v", b)
	}
	if st := v.e.count.snapshot(); st.Cancels != 1 || st.Cancelled != 3 {
		t.Errorf("%d messages cancelled %d operations", st.Cancels, st.Cancelled)
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

// CANCEL also ends reads that wait for memory. Reads of other files get the memory.
//
// Source: [OP-94b]
func TestReadsWaitForMemoryAndAreCancelled(t *testing.T) {
	onEach(t, testReadsWaitForMemoryAndAreCancelled)
}

func testReadsWaitForMemoryAndAreCancelled(t *testing.T, on string) {
	b, v, c, o, fid := gatedEnv(t, envConfig{
		on: on, limits: Limits{MaxRDMAWindowSize: 64 << 10, ReadBufferBytes: 256 << 10},
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
	if c.v.e.fabrics[0].buffers.queue.head != nil {
		t.Error("an operation still waits")
	}
}

// Source: [LWIO §File Registration] [OP-50i] [OP-52b] [OP-56] [OP-59]
func TestRegisterFindsOwnOpenOnly(t *testing.T) { onEach(t, testRegisterFindsOwnOpenOnly) }

func testRegisterFindsOwnOpenOnly(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on, limits: Limits{FilesPerConnection: 3}})
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
func TestFailedWriteReturnsItsStatus(t *testing.T) { onEach(t, testFailedWriteReturnsItsStatus) }

func testFailedWriteReturnsItsStatus(t *testing.T, on string) {
	b, v, c, _, fid := gatedEnv(t, envConfig{on: on})
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
// Source: [LWIO §Wakeup] [OP-93a] [OP-93c] [OP-93d] [OP-93e] [OP-93f] [LWIO claim 21]
func TestInterruptIsAnsweredByNextCompletion(t *testing.T) {
	onEach(t, testInterruptIsAnsweredByNextCompletion)
}

func testInterruptIsAnsweredByNextCompletion(t *testing.T, on string) {
	b, v, c, _, fid := gatedEnv(t, envConfig{on: on})
	const at = 1 << 20
	polled := func() {
		h := c.readHeader(fid, 0, 4096, 0)
		h.Flags = 0
		h.IosVa, h.IosMh = c.in.RemoteAddr().Addr+at, uint32(c.in.RemoteAddr().Token)
		c.send(h, nil)
	}
	// No completion was missed: the answer waits.
	b.shut()
	polled()
	arm := c.send(wire.NewInterrupt(1), nil)
	c.want(ntstatus.DeviceBusy, 0, wire.NewInterrupt(1), nil)
	b.open()
	if s := c.reply(); s.Cookie != arm || s.Status != 0 {
		t.Fatalf("%+v, want the wake-up", s)
	}
	if bytes.Equal(c.in.Bytes()[at:at+8], make([]byte, 8)) {
		t.Error("woken before the completion")
	}
	// One of two is complete, and the client has not seen it: the answer comes
	// at once.
	c.want(ntstatus.Success, 0, wire.NewInterrupt(1), nil)
	b.shut()
	polled()
	c.want(ntstatus.Success, 0, wire.NewInterrupt(2), nil)
	// A count that is saturated cannot be compared.
	arm = c.send(wire.NewInterrupt(300), nil)
	c.want(ntstatus.DeviceBusy, 0, wire.NewInterrupt(300), nil)
	b.open()
	if s := c.reply(); s.Cookie != arm {
		t.Fatalf("%+v, want the wake-up", s)
	}
	v.serves()
}
