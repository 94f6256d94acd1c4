package smbserver

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/vfs"
)

// fileOf returns the file of a durable open.
func (r *restarts) fileOf(id [16]byte) *vfs.Open {
	return r.server.lineages.byFileID(le.Uint64(id[:])).file
}

// A lock sequence names a request over SMB and over another protocol: it is done once, over whichever it comes
// again, also after a restart of the server.
//
// Source: [OP-116], [MS-SMB2 3.3.5.14]
func TestLockSequencesHoldOverBothCarriers(t *testing.T) {
	r, _, addr := newRestarts(t)
	c := mount(t, addr, "data")
	id := c.mustCreate(persistent(create{name: "f", access: 3, share: 3, disposition: 3}, 1, 0))
	held := func(want int) {
		t.Helper()
		if n := r.files.Stats().Locks; n != want {
			t.Errorf("%d locks, want %d", n, want)
		}
	}
	once := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	shared := vfs.Lock{Range: vfs.Range{Off: 0, Len: 10}}
	const first, second, end = 3<<4 | 7, 4<<4 | 1, 5<<4 | 2
	once(r.fileOf(id).LockOnce(shared, first))
	c.want(ntstatus.Success, cmdLock, sequenced(lockBody(id, element{0, 10, lockShared | lockNow}), 3, 7))
	held(1)
	c.want(ntstatus.Success, cmdLock, sequenced(lockBody(id, element{0, 10, lockShared | lockNow}), 4, 1))
	once(r.fileOf(id).LockOnce(shared, second))
	held(2)
	r.wantState(1, 5) // the open, two locks and two sequences
	once(r.fileOf(id).LockOnce(shared, 0))
	once(r.fileOf(id).LockOnce(shared, 0)) // without a name each is another one
	held(4)
	once(r.fileOf(id).UnlockOnce(shared.Range, end))
	once(r.fileOf(id).UnlockOnce(shared.Range, end))
	held(3)
	if err := r.fileOf(id).LockOnce(vfs.Lock{Range: shared.Range, Exclusive: true}, first+1); !errors.Is(err, ntstatus.LockNotGranted) {
		t.Errorf("an exclusive lock: %v", err)
	}
	if err := r.fileOf(id).UnlockOnce(vfs.Range{Off: 1, Len: 1}, first+2); !errors.Is(err, ntstatus.RangeNotLocked) {
		t.Errorf("no such lock: %v", err)
	}
	if !r.fileOf(id).LockBlocks() {
		t.Error("a lock with a record does not wait for a file system")
	}

	_, addr = r.restart()
	held(3)
	once(r.fileOf(id).LockOnce(shared, second))
	once(r.fileOf(id).UnlockOnce(shared.Range, end))
	held(3)
	c = c.resume(addr)
	id = c.mustReclaim(id, 1)
	c.want(ntstatus.Success, cmdLock, sequenced(lockBody(id, element{0, 10, lockUnlock}), 5, 2))
	held(3)
	c.want(ntstatus.Success, cmdLock, sequenced(lockBody(id, element{0, 10, lockUnlock}), 5, 3))
	held(2)
	c.want(ntstatus.Success, cmdClose, closeBody(id, 0))
	held(0)
	r.wantState(0, 0)
}

// A lock over another protocol whose record cannot be written is not held.
//
// Source: [OP-56], [OP-116]
func TestLockWithoutRecordIsNotHeld(t *testing.T) {
	r, _, addr := newRestarts(t)
	c := mount(t, addr, "data")
	id := c.mustCreate(persistent(exclusive("f"), 1, 0))
	file := r.fileOf(id)
	r.kept(id).leave() // as at a stop of the server
	if err := file.LockOnce(vfs.Lock{Range: vfs.Range{Len: 1}, Exclusive: true}, 0x11); !errors.Is(err, ntstatus.FileClosed) {
		t.Error(err)
	}
	if n := r.files.Stats().Locks; n != 0 {
		t.Errorf("%d locks", n)
	}
}

// failingDisk is a backend whose files fail to sync, once for each failure that is due.
type failingDisk struct {
	vfs.Backend
	due *atomic.Int32
}

func (d failingDisk) Create(path string, how vfs.HandleMode, readOnly bool) (vfs.Handle, error) {
	h, err := d.Backend.Create(path, how, readOnly)
	return failingFile{h, d.due}, err
}

type failingFile struct {
	vfs.Handle
	due *atomic.Int32
}

func (f failingFile) Sync() error {
	if f.due.Add(-1) >= 0 {
		return syscall.EIO
	}
	return f.Handle.Sync()
}

// A failure of the disk is given once, over whichever carrier: again over another one until that one shows that the
// client has it.
//
// Source: [OP-92f], [OP-116]
func TestSyncFailureIsGivenOverBothCarriers(t *testing.T) {
	r, due := &restarts{t: t}, new(atomic.Int32)
	fresh, _, _ := newRestarts(t)
	fresh.stop()
	*r = *fresh
	r.wrap = func(b vfs.Backend) vfs.Backend { return failingDisk{b, due} }
	_, addr := r.start()
	fresh.stop = r.stop
	c := mount(t, addr, "data")
	id := c.mustCreate(persistent(exclusive("f"), 1, 0))
	const failure = ntstatus.UnexpectedIOError
	over := func(connection uint64) ntstatus.Status { return ntstatus.Of(r.fileOf(id).SyncFor(connection)) }
	flush := func(want ntstatus.Status) { c.want(want, cmdFlush, append([]byte{24, 0, 0, 0, 0, 0, 0, 0}, id[:]...)) }

	due.Store(1)
	for i, x := range []struct {
		connection uint64
		want       ntstatus.Status
	}{{7, failure}, {8, failure}, {8, ntstatus.Success}, {7, ntstatus.Success}} {
		if st := over(x.connection); st != x.want {
			t.Errorf("sync %d: %v, want %v", i, st, x.want)
		}
	}
	flush(ntstatus.Success)
	due.Store(1)
	if st := over(7); st != failure {
		t.Error(st)
	}
	flush(failure)
	flush(ntstatus.Success)
	due.Store(1)
	flush(failure)
	if st := over(7); st != failure {
		t.Errorf("after a failure over SMB: %v", st)
	}
	if st := over(7); st != ntstatus.Success {
		t.Error(st)
	}
}
