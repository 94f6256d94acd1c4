package smbserver

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"lwio/internal/account"
	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbbuf"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// pool is a worker pool whose messages wait until they are released.
type pool struct {
	workers
	messages        chan *message
	release, parked chan struct{}
	serving, served atomic.Int32 // messages
	waited          atomic.Int32 // messages that were queued
	ended           atomic.Int32
}

func newPool(limit int) *pool {
	p := &pool{messages: make(chan *message), release: make(chan struct{}), parked: make(chan struct{})}
	p.workers = workers{limit: limit, waitLimit: 1, closed: func() { p.ended.Add(1) }}
	p.next = func() (*message, bool) {
		m, ok := <-p.messages
		return m, ok
	}
	p.serve = func(_ *message, queued bool) {
		if queued {
			p.waited.Add(1)
		}
		p.serving.Add(1)
		<-p.release
		p.serving.Add(-1)
		p.served.Add(1)
	}
	p.start()
	return p
}

// sized returns a message that takes n bytes of memory.
func sized(n int64) *message {
	a := account.NewAccount(account.NewSum(1<<40, 0), 1<<40)
	return &message{frame: &smbbuf.Buffer{Charge: a.ForceCharge("", n, account.First)}}
}

// The pool grows to its limit while its goroutines are busy, queues further messages, parks goroutines
// that do not count, and reports its end once.
func TestWorkersGrowToTheLimitAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, messages = 5, 12
		p := newPool(limit)
		for range messages {
			p.messages <- sized(1)
		}
		synctest.Wait()
		if n, total := p.serving.Load(), p.total; n != limit || total != limit+1 {
			t.Errorf("%d of %d goroutines serve, want %d of %d", n, total, limit, limit+1)
		}
		if !p.park(func() { <-p.parked }) || p.park(func() {}) {
			t.Error("not exactly one goroutine could be parked")
		}
		close(p.release)
		close(p.messages)
		synctest.Wait()
		if n := p.waited.Load(); n != messages-limit {
			t.Errorf("%d messages were queued", n)
		}
		if n := p.ended.Load(); n != 0 {
			t.Error("the pool ended while a goroutine was parked")
		}
		close(p.parked)
		synctest.Wait()
		if n := p.ended.Load(); n != 1 {
			t.Errorf("the end was reported %d times", n)
		}
	})
}

// Messages above the limit of memory are not read before others have been served.
func TestQueueOfMessagesIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(2)
		var read atomic.Int32
		go func() {
			for range 20 {
				p.messages <- sized(maxQueued / 4)
				read.Add(1)
			}
			close(p.messages)
		}()
		synctest.Wait()
		if n := read.Load(); n != 2+4+1 { // one is read, and is not in the queue
			t.Errorf("%d messages were read", n)
		}
		p.release <- struct{}{}
		synctest.Wait()
		if n := read.Load(); n != 2+4+2 {
			t.Errorf("%d messages were read after one was served", n)
		}
		close(p.release)
		synctest.Wait()
		if n := p.ended.Load(); n != 1 || p.served.Load() != 20 || p.queued != 0 {
			t.Errorf("%d ends, %d messages were served, %d bytes are queued", n, p.served.Load(), p.queued)
		}
	})
}

// stalledServer starts a server with two workers and a backend that holds writes until release is called.
// The client c has called before, and then sent n writes, of which two are held. written receives when a
// further one begins.
func stalledServer(t *testing.T, n int, before func(c *raw)) (s *Server, c *raw, written chan struct{}, release func()) {
	t.Helper()
	d, err := posix.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := heldWrites{Backend: d, hold: new(atomic.Pointer[chan struct{}]), came: make(chan struct{}, n)}
	fs, err := vfs.New(vfs.Config{Shares: []vfs.Share{{Name: "data", Backend: b}}})
	if err != nil {
		t.Fatal(err)
	}
	s, addr, _ := testServer(t, func(c *Config) {
		t.Cleanup(func() {
			if err := fs.Close(); err != nil {
				t.Error(err)
			}
		})
		c.FS, c.MaxWorkers = fs, 2
	})
	c = mount(t, addr, "data")
	id := c.mustCreate(rw("f"))
	before(c)
	for range 8 { // for credits
		c.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	}
	free := make(chan struct{})
	b.hold.Store(&free)
	for range n {
		c.send(c.message(cmdWrite, writeBody(id, 0, []byte("slow"))))
	}
	<-b.came
	<-b.came
	return s, c, b.came, sync.OnceFunc(func() { close(free) })
}

// An ECHO is answered, and a CANCEL executed, while the file system stalls all workers and further
// requests wait for one.
//
// Source: [MS-SMB2 3.3.5.17], [MS-SMB2 3.3.5.16]
func TestEchoWaitsForNoFileSystem(t *testing.T) {
	const writes = 10
	var lock uint64
	_, c, _, release := stalledServer(t, writes, func(c *raw) {
		c.want(ntstatus.Success, cmdLock, lockBody(c.mustCreate(rw("g")), element{0, 1, lockExclusive}))
		lock = c.pend(c.mustCreate(rw("g")), element{0, 1, lockExclusive})
	})
	defer release()
	for range 3 {
		echo := c.id
		c.send(c.message(cmdEcho, []byte{4, 0, 0, 0}))
		if r := c.recv()[0]; r.status != ntstatus.Success || r.command != cmdEcho || r.id != echo {
			t.Fatalf("the first response is %+v, want that of an ECHO", r)
		}
	}
	c.cancel(lock, true)
	c.late(lock, ntstatus.Cancelled)
	release()
	for range writes {
		if r := c.recv()[0]; r.command != cmdWrite || r.status != ntstatus.Success {
			t.Errorf("command %d: %v", r.command, r.status)
		}
	}
}

// Messages that wait for a worker are not served after the loss of the connection.
func TestQueuedMessagesEndWithTheConnection(t *testing.T) {
	s, c, written, release := stalledServer(t, 20, func(*raw) {})
	defer release()
	c.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0}) // all are read
	ss := s.session(c.session)
	c.nc.Close()
	<-ss.conn.ctx.Done()
	release()
	<-ss.gone
	if n := len(written); n != 0 {
		t.Errorf("%d writes began after the loss", n)
	}
}
