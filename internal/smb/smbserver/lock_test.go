package smbserver

import (
	"context"
	"math"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/vfs"
)

// Flags of locks, as the raw client writes them.
const (
	lockShared    = 1
	lockExclusive = 2
	lockUnlock    = 4
	lockNow       = 0x10
)

// element is one range of a LOCK.
type element struct {
	off, n uint64
	flags  uint32
}

func lockBody(id [16]byte, list ...element) []byte {
	b := le.AppendUint16(nil, 48)
	b = le.AppendUint16(b, uint16(len(list)))
	b = le.AppendUint32(b, 0x00000123) // a sequence number, which is ignored
	b = append(b, id[:]...)
	for _, l := range list {
		b = le.AppendUint64(b, l.off)
		b = le.AppendUint64(b, l.n)
		b = le.AppendUint32(b, l.flags)
		b = le.AppendUint32(b, 0x55555555)
	}
	return b
}

// pend sends a LOCK that has to wait, and returns the id of the message after the interim
// response.
func (c *raw) pend(id [16]byte, l element) (message uint64) {
	c.t.Helper()
	m := c.message(cmdLock, lockBody(id, l))
	c.send(m)
	r := c.recv()[0]
	if r.status != ntstatus.Pending || r.flags&2 == 0 || r.credits == 0 {
		c.t.Fatalf("%v, flags %x, %d credits", r.status, r.flags, r.credits)
	}
	return r.id
}

// late reads the final response to a LOCK that had to wait.
func (c *raw) late(message uint64, want ntstatus.Status) {
	c.t.Helper()
	c.isLate(c.recv()[0], message, want)
}

func (c *raw) isLate(r reply, message uint64, want ntstatus.Status) {
	c.t.Helper()
	if r.command != cmdLock || r.status != want || r.id != message || r.flags&2 == 0 || r.flags&8 != 0 == c.encrypts() || r.credits != 0 {
		c.t.Fatalf("response to command %d: %v, want %v; message %d, want %d; flags %x, %d credits",
			r.command, r.status, want, r.id, message, r.flags, r.credits)
	}
}

// cancel sends a CANCEL, by the id of the message or of the asynchronous request.
func (c *raw) cancel(message uint64, async bool) {
	c.t.Helper()
	m := c.message(cmdCancel, []byte{4, 0, 0, 0})
	c.id--
	le.PutUint64(m[24:], message)
	if async {
		le.PutUint32(m[16:], 2)
		le.PutUint64(m[32:], message)
	}
	c.send(m)
}

// A CANCEL without a valid signature of its session is ignored.
//
// Source: [MS-SMB2 3.3.5.16] [MS-SMB2 3.3.5.2.4]
func TestCancelNeedsSignature(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	for _, d := range allDialects {
		a, b := login(t, addr, d), login(t, addr, d)
		a.mustConnect("data")
		b.mustConnect("data")
		f, g := a.mustCreate(rw("f")), b.mustCreate(rw("f"))
		a.want(ntstatus.Success, cmdLock, lockBody(f, element{0, 1, lockExclusive}))
		wait := b.pend(g, element{0, 1, lockExclusive})
		signer, session, wrong := b.signer, b.session, s.Stats().BadSignatures
		b.signer = nil
		b.cancel(wait, true) // unsigned
		b.signer, b.session = signer, session+1
		b.cancel(wait, true) // of no session
		b.signer, b.session = a.signer, session
		b.cancel(wait, true) // signed with another key
		b.signer = signer
		b.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0}) // and not the response to LOCK
		if n := s.Stats().BadSignatures - wrong; n != 1 {
			t.Errorf("%#x: %d wrong signatures counted", d, n)
		}
		b.cancel(wait, true)
		b.late(wait, ntstatus.Cancelled)
		a.want(ntstatus.Success, cmdClose, closeBody(f, 0))
	}
}

// The responses to LOCK, byte by byte.
//
// Source: [MS-SMB2 2.2.26] [MS-SMB2 3.3.5.14] [MS-SMB2 3.3.5.14.1] [MS-SMB2 3.3.5.14.2]
func TestLocksConflictAcrossOpens(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	a, b := mount(t, addr, "data"), mount(t, addr, "data")
	f, g := a.mustCreate(rw("f")), b.mustCreate(rw("f"))
	dir := a.mustCreate(create{access: 0x81, share: 7, disposition: 1, options: 1})
	a.want(ntstatus.Success, cmdWrite, writeBody(f, 0, make([]byte, 100)))
	const ok, invalid, denied, unlocked = ntstatus.Success, ntstatus.InvalidParameter, ntstatus.LockNotGranted, ntstatus.RangeNotLocked
	type list = []element
	for i, x := range []struct {
		c    *raw
		id   [16]byte
		list list
		want ntstatus.Status
	}{
		{a, f, nil, invalid},
		{a, f, list{{0, 1, 0}}, invalid},
		{a, f, list{{0, 1, lockNow}}, invalid},
		{a, f, list{{0, 1, lockShared | lockExclusive}}, invalid},
		{a, f, list{{0, 1, lockShared | 0x20}}, invalid},
		{a, f, list{{0, 1, lockUnlock | lockShared}}, invalid},
		{a, f, list{{0, 1, lockUnlock | lockNow}}, invalid},
		{a, f, list{{0, 1, lockUnlock}}, unlocked},
		{a, dir, list{{0, 1, lockShared}}, invalid},
		{a, f, list{{math.MaxUint64, 2, lockShared}}, ntstatus.InvalidLockRange},
		{a, f, list{{1, math.MaxUint64, lockShared}}, ok},
		{a, f, list{{1, math.MaxUint64, lockUnlock}}, ok},
		// Arrays.
		{a, f, list{{0, 1, lockShared}, {5, 1, lockShared}}, invalid},
		{a, f, list{{0, 1, lockShared | lockNow}, {5, 1, lockShared}}, invalid},
		{a, f, list{{0, 1, lockShared | lockNow}, {0, 1, lockUnlock}}, invalid},
		{a, f, list{{0, 1, lockUnlock}}, unlocked},
		{a, f, list{{0, 10, lockExclusive | lockNow}, {20, 10, lockShared | lockNow}}, ok},
		{b, g, list{{50, 10, lockExclusive | lockNow}, {25, 10, lockExclusive | lockNow}}, denied},
		{b, g, list{{50, 10, lockUnlock}}, unlocked},
		{b, g, list{{25, 10, lockShared | lockNow}, {50, 10, lockExclusive | lockNow}}, ok},
		{a, f, list{{0, 10, lockUnlock}, {1, 1, lockUnlock}, {20, 10, lockUnlock}}, unlocked},
		{a, f, list{{0, 10, lockUnlock}}, unlocked},
		{a, f, list{{20, 10, lockUnlock}, {0, 1, lockShared}}, invalid},
		{a, f, list{{20, 10, lockUnlock}}, unlocked},
		{b, g, list{{25, 10, lockUnlock}, {50, 10, lockUnlock}}, ok},
		{b, g, list{{0, 10, lockExclusive}}, ok},
	} {
		r := x.c.call(cmdLock, lockBody(x.id, x.list...))
		if r.status != x.want {
			t.Fatalf("%d: %v: %v, want %v", i, x.list, r.status, x.want)
		}
		if r.status == ok && string(r.body) != "\x04\x00\x00\x00" {
			t.Errorf("%d: body %x", i, r.body)
		}
	}
	// Locks hold for reads and writes.
	a.want(ntstatus.FileLockConflict, cmdRead, readBody(f, 9, 5, 0))
	a.want(ntstatus.FileLockConflict, cmdWrite, writeBody(f, 0, []byte("x")))
	a.want(ok, cmdRead, readBody(f, 10, 5, 0))
	b.want(ok, cmdWrite, writeBody(g, 0, []byte("x")))
	b.want(ok, cmdClose, closeBody(g, 0))
	a.want(ok, cmdWrite, writeBody(f, 0, []byte("x")))
	// A part of a message is refused.
	whole := lockBody(f, element{0, 1, lockShared}, element{5, 1, lockShared})
	for n := range len(whole) {
		a.want(invalid, cmdLock, whole[:n])
	}
	f[0] ^= 0x55
	a.want(ntstatus.FileClosed, cmdLock, lockBody(f, element{0, 1, lockShared}))
	a.mustConnect("IPC$")
}

// A LOCK that has to wait gets its final response when it is granted or cancelled, or when
// its file is closed. Other requests of its client are served meanwhile.
//
// Source: [MS-SMB2 3.3.5.14.2] [MS-SMB2 3.3.4.2] [MS-SMB2 3.3.5.16] [MS-SMB2 3.3.5.10]
func TestWaitingLockGetsInterimResponse(t *testing.T) {
	s, addr, _ := testServer(t, func(c *Config) { c.MaxWorkers = 2 })
	a, b := mount(t, addr, "data"), mount(t, addr, "data")
	f := a.mustCreate(rw("f"))
	all := element{0, 100, lockExclusive}
	take := func() {
		t.Helper()
		a.want(ntstatus.Success, cmdLock, lockBody(f, all))
	}
	free := func() {
		t.Helper()
		a.want(ntstatus.Success, cmdLock, lockBody(f, element{0, 100, lockUnlock}))
	}
	take()
	var ids [8][16]byte
	var waits [len(ids)]uint64
	for i := range waits {
		ids[i] = b.mustCreate(rw("f"))
		waits[i] = b.pend(ids[i], element{uint64(i), 1, lockShared})
	}
	b.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	b.cancel(waits[0], true)
	b.late(waits[0], ntstatus.Cancelled)
	b.cancel(waits[1], false)
	b.late(waits[1], ntstatus.Cancelled)
	b.cancel(waits[1], false) // of nothing
	// A CANCEL in the message behind its LOCK is not too early.
	m := b.message(cmdLock, lockBody(ids[0], all))
	b.send(m)
	b.cancel(le.Uint64(m[24:]), false)
	if r := b.recv()[0]; r.status == ntstatus.Pending {
		b.late(r.id, ntstatus.Cancelled)
	} else if r.status != ntstatus.Cancelled {
		t.Fatal(r.status)
	}
	b.send(b.message(cmdClose, closeBody(ids[2], 0)))
	for range 2 {
		if r := b.recv()[0]; r.command == cmdLock {
			b.isLate(r, waits[2], ntstatus.RangeNotLocked)
		}
	}
	free()
	got := make(map[uint64]bool)
	for range waits[3:] {
		r := b.recv()[0]
		b.isLate(r, r.id, ntstatus.Success)
		got[r.id] = true
	}
	for _, w := range waits[3:] {
		if !got[w] {
			t.Errorf("message %d has no response", w)
		}
	}
	a.want(ntstatus.FileLockConflict, cmdWrite, writeBody(f, 3, []byte("x")))
	b.want(ntstatus.Success, cmdLogoff, []byte{4, 0, 0, 0})
	a.want(ntstatus.Success, cmdWrite, writeBody(f, 3, []byte("x")))
	// A connection that breaks, with a lock and with a wait.
	b = mount(t, addr, "data")
	g := b.mustCreate(rw("f"))
	b.want(ntstatus.Success, cmdLock, lockBody(g, element{200, 1, lockExclusive}))
	take()
	b.pend(g, all)
	w := a.pend(f, element{200, 1, lockShared})
	b.nc.Close()
	a.late(w, ntstatus.Success)
	// A session whose tree goes, and one that ends.
	c := mount(t, addr, "data")
	h := c.mustCreate(rw("f"))
	w = c.pend(h, all)
	c.send(c.message(cmdTreeDisconnect, []byte{4, 0, 0, 0}))
	for range 2 {
		if r := c.recv()[0]; r.command == cmdLock {
			c.isLate(r, w, ntstatus.RangeNotLocked)
		}
	}
	c.mustConnect("data")
	h = c.mustCreate(rw("f"))
	w = c.pend(h, all)
	c.send(c.message(cmdLogoff, []byte{4, 0, 0, 0}))
	for range 2 {
		if r := c.recv()[0]; r.command == cmdLock {
			c.isLate(r, w, ntstatus.RangeNotLocked)
		}
	}
	a.want(ntstatus.Success, cmdClose, closeBody(f, 0))
	if st := s.cfg.FS.Stats(); st.Locks != 0 || st.WaitingLocks != 0 {
		t.Errorf("%d locks, %d waiting, are left", st.Locks, st.WaitingLocks)
	}
}

// A LOCK in a compound does not wait.
//
// Source: [MS-SMB2 3.3.4.2]
func TestLockInCompoundDoesNotWait(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	a, b := mount(t, addr, "data"), mount(t, addr, "data")
	f, g := a.mustCreate(rw("f")), b.mustCreate(rw("f"))
	a.want(ntstatus.Success, cmdLock, lockBody(f, element{0, 1, lockExclusive}))
	b.send(related(
		b.message(cmdWrite, writeBody(g, 50, []byte("x"))),
		b.message(cmdLock, lockBody(noID, element{5, 1, lockShared})),
		b.message(cmdLock, lockBody(noID, element{0, 1, lockShared})),
		b.message(cmdLock, lockBody(noID, element{0, 1, lockShared | lockNow})),
		b.message(cmdClose, closeBody(noID, 0)),
	)...)
	want := []ntstatus.Status{ntstatus.Success, ntstatus.Success, ntstatus.InternalError, ntstatus.LockNotGranted, ntstatus.Success}
	for i, r := range b.recv() {
		if r.status != want[i] {
			t.Errorf("%d: %v, want %v", i, r.status, want[i])
		}
	}
}

// The waiting locks are bounded, and a shutdown waits for none of them.
func TestWaitingLocksAreBounded(t *testing.T) {
	s, addr, _ := testServer(t, func(c *Config) { c.MaxWaits = 5 })
	a, b := mount(t, addr, "data"), mount(t, addr, "data")
	f, g := a.mustCreate(rw("f")), b.mustCreate(rw("f"))
	holder, _, err := s.cfg.FS.Open(vfs.OpenRequest{ // no shutdown closes it
		Share: "data", Path: "f", Access: vfs.ReadData, ShareMode: vfs.ShareAll, Disposition: vfs.OpenExisting, Owner: t,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { holder.Close() })
	if err := holder.TryLock(vfs.Lock{Range: vfs.Range{Len: 1}, Exclusive: true}); err != nil {
		t.Fatal(err)
	}
	var waits []uint64
	for range 5 {
		waits = append(waits, b.pend(g, element{0, 1, lockExclusive}))
	}
	b.want(ntstatus.InsufficientResources, cmdLock, lockBody(g, element{0, 1, lockExclusive}))
	if st := s.cfg.FS.Stats(); st.Locks != 1 || st.WaitingLocks != 5 {
		t.Errorf("%d locks held, %d waiting", st.Locks, st.WaitingLocks)
	}
	b.want(ntstatus.Success, cmdLock, lockBody(g, element{5, 1, lockExclusive})) // a free range needs no wait
	// An array above the limit is refused as a whole.
	const maxOpenLocks = 4096 // the default of vfs.Config
	var many []element
	for i := range uint64(maxOpenLocks + 1) {
		many = append(many, element{100 + i, 1, lockShared | lockNow})
	}
	m := a.message(cmdLock, lockBody(f, many...))
	a.send(m)
	if r := a.recv()[0]; r.status != ntstatus.InsufficientResources {
		t.Error(r.status)
	}
	if st := s.cfg.FS.Stats(); st.Locks != 2 || st.WaitingLocks != 5 {
		t.Errorf("%d locks held, %d waiting", st.Locks, st.WaitingLocks)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Shutdown(ctx, nil); err != nil {
		t.Error(err)
	}
	for range waits { // in any order
		r := b.recv()[0]
		b.isLate(r, r.id, ntstatus.Cancelled)
	}
	b.wantCut()
}
