package smbserver

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lwio/internal/ntstatus"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// heldWrites is a backend whose writes wait while hold is set.
type heldWrites struct {
	vfs.Backend
	hold *atomic.Pointer[chan struct{}]
	came chan struct{} // receives when a write begins to wait
}

func (b heldWrites) Create(path string, how vfs.HandleMode, readOnly bool) (vfs.Handle, error) {
	h, err := b.Backend.Create(path, how, readOnly)
	return heldHandle{h, b}, err
}

type heldHandle struct {
	vfs.Handle
	b heldWrites
}

func (h heldHandle) WriteAt(p []byte, off int64, durable bool) (int, error) {
	if wait := h.b.hold.Load(); wait != nil {
		h.b.came <- struct{}{}
		<-*wait
	}
	return h.Handle.WriteAt(p, off, durable)
}

// unanswered is the time for which an answer must not come. A correct server passes however long it is.
const unanswered = 100 * time.Millisecond

// holding starts a server whose writes can be held, and has a client with a write in flight.
func holding(t *testing.T) (addr, dir string, old *raw, id [16]byte, free func()) {
	t.Helper()
	dir = t.TempDir()
	d, err := posix.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	b := heldWrites{Backend: d, hold: new(atomic.Pointer[chan struct{}]), came: make(chan struct{}, 1)}
	_, addr = backendServer(t, b)
	old = mount(t, addr, "data")
	id = old.mustCreate(persistent(exclusive("f"), 1, 0))
	held := make(chan struct{})
	b.hold.Store(&held)
	old.send(old.message(cmdWrite, writeBody(id, 0, []byte("old"))))
	<-b.came
	return addr, dir, old, id, sync.OnceFunc(func() {
		b.hold.Store(nil)
		close(held)
	})
}

// afterFree runs do, which must not return before free is called, and returns its result.
func afterFree(t *testing.T, free func(), do func() ntstatus.Status) ntstatus.Status {
	t.Helper()
	done := make(chan ntstatus.Status, 1)
	go func() { done <- do() }()
	select {
	case st := <-done:
		t.Errorf("%v while a write of the old session is in flight", st)
		free()
		return st
	case <-time.After(unanswered):
	}
	free()
	return <-done
}

// A session that continues another one begins when the writes in flight of the other one have ended:
// nothing of the old connection lands after the new session acts.
//
// Source: [OP-112], [MS-SMB2 3.3.5.5.3]
func TestNewSessionWaitsForRequestsOfOldOne(t *testing.T) {
	addr, dir, old, id, free := holding(t)
	next := dial(t, addr)
	next.mustNegotiate(0x0311)
	st := afterFree(t, free, func() ntstatus.Status { return next.setup(testUser, testPassword, old.session).status })
	if st != ntstatus.Success {
		t.Fatal(st)
	}
	next.mustConnect("data")
	id = next.mustReclaim(id, 1)
	next.want(ntstatus.Success, cmdWrite, writeBody(id, 0, []byte("new")))
	if got, err := os.ReadFile(filepath.Join(dir, "f")); string(got) != "new" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if r := old.recv()[0]; r.status != ntstatus.Success {
		t.Errorf("the write in flight: %v", r.status)
	}
	if r := old.call(cmdWrite, writeBody(id, 0, []byte("late"))); r.status != ntstatus.UserSessionDeleted {
		t.Errorf("a write of the old session: %v", r.status)
	}
}

// An open is taken over when the requests of its last session on it have ended, also if the new session has waited
// for them in vain.
//
// Source: [OP-112], [MS-SMB2 3.3.5.9.12]
func TestReclaimWaitsForRequestsOfOldSession(t *testing.T) {
	addr, dir, old, id, free := holding(t)
	defer free()
	next := old.resume(addr) // after drainTime
	var got [16]byte
	st := afterFree(t, free, func() ntstatus.Status {
		r := next.call(cmdCreate, reclaiming(id, 1).body())
		for r.status == ntstatus.FileNotAvailable { // after drainTime again, on a slow machine
			r = next.call(cmdCreate, reclaiming(id, 1).body())
		}
		if r.status == ntstatus.Success {
			got = [16]byte(r.body[64:80])
		}
		return r.status
	})
	if st != ntstatus.Success {
		t.Fatal(st)
	}
	next.want(ntstatus.Success, cmdWrite, writeBody(got, 0, []byte("new")))
	if got, err := os.ReadFile(filepath.Join(dir, "f")); string(got) != "new" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// A wait ends with the last request, or after its time.
func TestInFlightWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f inFlight
		if !f.wait(0) {
			t.Error("a request without begin")
		}
		f.begin()
		f.begin()
		start := time.Now()
		if f.wait(time.Second) || time.Since(start) != time.Second {
			t.Errorf("a wait for requests in flight ends after %v", time.Since(start))
		}
		go func() {
			time.Sleep(time.Second)
			f.end()
			time.Sleep(time.Second)
			f.end()
		}()
		start = time.Now()
		if !f.wait(time.Minute) || time.Since(start) != 2*time.Second {
			t.Errorf("the wait ends after %v", time.Since(start))
		}
	})
}
