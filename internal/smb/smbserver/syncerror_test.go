package smbserver

import (
	"runtime"
	"syscall"
	"testing"
	"time"
	"weak"

	"lwio/internal/ntstatus"
	"lwio/vfs"
)

// due is begin for a test that needs the response only.
func (e *syncError) due(c carrier) ntstatus.Status {
	_, st := e.begin(c)
	return st
}

// set notes the failure of a request that begins and ends now.
func (e *syncError) set(st ntstatus.Status, c carrier) {
	r, _ := e.begin(c)
	e.fail(st, r)
}

// A failure is repeated over each carrier until a second FLUSH over it. A session and a connection of another protocol
// differ, also if they have the same number.
func TestSyncErrorIsRepeatedOverTheNextCarrier(t *testing.T) {
	const failure = ntstatus.UnexpectedIOError
	first, next, last := carrier{id: 1}, carrier{id: 2}, carrier{other: true, id: 2}
	var e syncError
	if st := e.due(first); st != ntstatus.Success {
		t.Errorf("without a failure: %v", st)
	}
	e.set(failure, first)
	for i, x := range []struct {
		s    carrier
		want ntstatus.Status
	}{{next, failure}, {last, failure}, {last, ntstatus.Success}, {first, ntstatus.Success}} {
		if st := e.due(x.s); st != x.want {
			t.Errorf("FLUSH %d: %v, want %v", i+1, st, x.want)
		}
	}
	e.set(failure, first)
	if st := e.due(first); st != ntstatus.Success {
		t.Errorf("the session that has the response: %v", st)
	}
	e.restore(failure)
	if st := e.due(first); st != failure {
		t.Errorf("a failure before a restart: %v", st)
	}
}

// Of the requests that share one failure, the newest has the carrier whose next request shows that the client has it.
func TestSyncErrorIsShownByTheNewestRequest(t *testing.T) {
	const failure = ntstatus.UnexpectedIOError
	for name, newestFirst := range map[string]bool{"in order": false, "the newest first": true} {
		var e syncError
		lost, _ := e.begin(carrier{id: 1})
		older, _ := e.begin(carrier{id: 2})
		newest, _ := e.begin(carrier{id: 3})
		e.fail(failure, lost)
		if newestFirst {
			older, newest = newest, older
		}
		e.show(older)
		e.show(newest)
		if st := e.due(carrier{id: 3}); st != ntstatus.Success {
			t.Errorf("%s: %v", name, st)
		}
	}
}

// The loss of data at the sync of another open, during a sync that succeeds, is not taken for one before it.
func TestSyncErrorKeepsALossDuringTheSync(t *testing.T) {
	var e syncError
	unsynced := false
	note := func(on bool) func() { return func() { unsynced = on } }
	r, _ := e.begin(carrier{id: 1})
	e.lose(note(true))
	if st := e.succeed(r, note(false)); st != ntstatus.Success || !unsynced {
		t.Errorf("%v; unsynced %v", st, unsynced)
	}
	r, _ = e.begin(carrier{id: 1})
	if st := e.succeed(r, note(false)); st != ntstatus.Success || unsynced {
		t.Errorf("the next sync: %v; unsynced %v", st, unsynced)
	}
}

// heldDisk is a backend whose first sync waits, and fails.
type heldDisk struct {
	vfs.Backend
	syncs chan struct{} // holds a token until the first sync begins
	began chan struct{} // closed when it begins
	fail  chan struct{} // closed to end it
}

func (d *heldDisk) Create(path string, how vfs.HandleMode, readOnly bool) (vfs.Handle, error) {
	h, err := d.Backend.Create(path, how, readOnly)
	return heldFile{h, d}, err
}

type heldFile struct {
	vfs.Handle
	d *heldDisk
}

func (f heldFile) Sync() error {
	select {
	case <-f.d.syncs:
		close(f.d.began)
		<-f.d.fail
		return syscall.EIO
	default:
		return f.Handle.Sync()
	}
}

// A sync that is sent again over another carrier, while the first one is still in progress, has the failure of the
// first, whose response is lost. A sync over the same carrier succeeds, and does not show that the client has the
// failure: it was sent before.
//
// Source: [OP-92f], [OP-116]
func TestSyncInProgressDoesNotHideTheFailureOfAnother(t *testing.T) {
	const first, other, failure = 1, 2, ntstatus.UnexpectedIOError
	for name, x := range map[string]struct {
		over uint64
		want ntstatus.Status
	}{"another carrier": {other, failure}, "the same carrier": {first, ntstatus.Success}} {
		t.Run(name, func(t *testing.T) {
			r, _, _ := newRestarts(t)
			r.stop()
			d := &heldDisk{syncs: make(chan struct{}, 1), began: make(chan struct{}), fail: make(chan struct{})}
			d.syncs <- struct{}{}
			r.wrap = func(b vfs.Backend) vfs.Backend {
				d.Backend = b
				return d
			}
			_, addr := r.start()
			c := mount(t, addr, "data")
			id := c.mustCreate(persistent(exclusive("f"), 1, 0))
			file, e := r.fileOf(id), &r.server.lineages.byFileID(le.Uint64(id[:])).syncFailed
			over := func(connection uint64) ntstatus.Status { return ntstatus.Of(file.SyncFor(connection)) }
			results := [2]chan ntstatus.Status{make(chan ntstatus.Status, 1), make(chan ntstatus.Status, 1)}
			go func() { results[0] <- over(first) }()
			<-d.began
			go func() { results[1] <- over(x.over) }()
			for requests := uint64(0); requests < 2; time.Sleep(time.Millisecond) {
				e.mu.Lock()
				requests = e.requests
				e.mu.Unlock()
			}
			close(d.fail)
			if st := <-results[0]; st != failure {
				t.Errorf("the first: %v", st)
			}
			if st := <-results[1]; st != x.want {
				t.Errorf("the second: %v, want %v", st, x.want)
			}
			if !r.kept(id).record.unsynced {
				t.Error("the state has no failure")
			}
			if x.over == first {
				if st := over(other); st != failure {
					t.Errorf("over the next carrier: %v", st)
				}
			}
			if st := over(other); st != ntstatus.Success {
				t.Errorf("after the failure: %v", st)
			}
			if r.kept(id).record.unsynced {
				t.Error("the state still has the failure")
			}
		})
	}
}

// The failure of an open, which outlives its session, does not keep the session in memory.
func TestSyncErrorKeepsNoSession(t *testing.T) {
	var e syncError
	show := func() weak.Pointer[Session] {
		s := &Session{id: 1}
		e.set(ntstatus.UnexpectedIOError, carrier{id: s.id})
		if st := e.due(carrier{id: 2}); st != ntstatus.UnexpectedIOError {
			t.Fatal(st)
		}
		e.restore(ntstatus.UnexpectedIOError)
		e.due(carrier{id: s.id})
		return weak.Make(s)
	}
	s := show()
	for range 10 {
		runtime.GC()
	}
	if s.Value() != nil {
		t.Error("the session is still reachable")
	}
	runtime.KeepAlive(&e)
}
