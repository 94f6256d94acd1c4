package smbserver

import (
	"testing"

	"lwio/internal/ntstatus"
)

// LOGOFF, TREE_DISCONNECT and CLOSE close persistent handles.
//
// Source: [MS-SMB2 3.3.5.6], [MS-SMB2 3.3.5.8], [MS-SMB2 3.3.5.10]
func TestClientClosesPersistentHandles(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	for name, end := range map[string]func(c *raw, id [16]byte){
		"CLOSE":           func(c *raw, id [16]byte) { c.want(ntstatus.Success, cmdClose, closeBody(id, 0)) },
		"TREE_DISCONNECT": func(c *raw, _ [16]byte) { c.want(ntstatus.Success, cmdTreeDisconnect, []byte{4, 0, 0, 0}) },
		"LOGOFF":          func(c *raw, _ [16]byte) { c.want(ntstatus.Success, cmdLogoff, []byte{4, 0, 0, 0}) },
	} {
		c := mount(t, addr, "data")
		id, ss := c.mustCreate(persistent(exclusive("f"), 1, 0)), s.session(c.session)
		end(c, id)
		if st := s.cfg.FS.Stats(); st.Opens != 0 {
			t.Errorf("%s: %d opens", name, st.Opens)
		}
		c.nc.Close()
		<-ss.Lineage().Done()
		if left := ss.Lineage().LoggedOff(); left != (name == "LOGOFF") {
			t.Errorf("%s: logged off: %t", name, left)
		}
	}
}

// A CREATE that the client repeats returns the open of the first one, also after the loss of the
// connection. Without the flag of a repetition the GUID is in use.
//
// Source: [MS-SMB2 3.3.5.9.10]
func TestReplayedCreate(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	c := mount(t, addr, "data")
	first := persistent(create{name: "f", access: 3, disposition: 2}, 1, 0)
	id := c.mustCreate(first)
	again := func(c *raw, flag bool) reply {
		m := c.message(cmdCreate, first.body())
		if flag {
			m = replay(m)
		}
		c.send(m)
		return c.recv()[0]
	}
	if r := again(c, false); r.status != ntstatus.DuplicateObjectID {
		t.Errorf("without the flag: %v", r.status)
	}
	check := func(r reply, what string) (got [16]byte) {
		t.Helper()
		if r.status != ntstatus.Success {
			t.Fatalf("%s: %v", what, r.status)
		}
		if action := le.Uint32(r.body[4:]); action != 2 {
			t.Errorf("%s: action %d, want that of a created file", what, action)
		}
		if _, ok := grantedTime(r.body); !ok {
			t.Errorf("%s: no persistent handle", what)
		}
		return [16]byte(r.body[64:80])
	}
	if got := check(again(c, true), "on the same session"); got != id {
		t.Errorf("FileId %x, want %x", got, id)
	}
	second := mount(t, addr, "data")
	if r := again(second, true); r.status != ntstatus.DuplicateObjectID {
		t.Errorf("of another session: %v", r.status)
	}
	c.lose(s, 1)
	if r := again(second, false); r.status != ntstatus.DuplicateObjectID {
		t.Errorf("without the flag, after the loss: %v", r.status)
	}
	c = c.resume(addr)
	got := check(again(c, true), "on the next session")
	if le.Uint64(got[:]) != le.Uint64(id[:]) {
		t.Errorf("FileId %x, want the persistent part of %x", got, id)
	}
	c.want(ntstatus.Success, cmdClose, closeBody(got, 0))
	bob := as(t, addr, "bob")
	bob.mustCreate(persistent(exclusive("of bob"), 1, 0)) // a GUID belongs to a user
	c.mustCreate(persistent(exclusive("f"), 1, 0))        // and is free after the close
}

// A repeated LOCK or UNLOCK of a persistent handle is done once, before and after a reclaim. Each bucket
// has its own number. Other opens have no sequence numbers.
//
// Source: [MS-SMB2 3.3.5.14]
func TestRepeatedLockIsDoneOnce(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	c := mount(t, addr, "data")
	id := c.mustCreate(persistent(exclusive("f"), 1, 0))
	lock := func(c *raw, id [16]byte, sequence uint32, e element, want ntstatus.Status) {
		t.Helper()
		b := lockBody(id, e)
		le.PutUint32(b[4:], sequence)
		c.want(want, cmdLock, b)
	}
	on, off := element{0, 1, lockExclusive | lockNow}, element{0, 1, lockUnlock}
	lock(c, id, 0x11, on, ntstatus.Success)
	lock(c, id, 0x11, on, ntstatus.Success) // done before
	lock(c, id, 0x21, on, ntstatus.LockNotGranted)
	lock(c, id, 0x21, on, ntstatus.LockNotGranted) // a failure is not remembered
	lock(c, id, 0x12, off, ntstatus.Success)
	lock(c, id, 0x12, off, ntstatus.Success)
	lock(c, id, 0x13, off, ntstatus.RangeNotLocked)
	lock(c, id, 0x12, off, ntstatus.RangeNotLocked) // the bucket has no number now
	lock(c, id, 0x401, on, ntstatus.Success)        // bucket 64
	lock(c, id, 0x401, on, ntstatus.Success)
	lock(c, id, 0x411, on, ntstatus.LockNotGranted) // there is no bucket 65
	lock(c, id, 0x01, on, ntstatus.LockNotGranted)  // and no bucket 0
	c.lose(s, 1)
	c = c.resume(addr)
	id = c.mustReclaim(id, 1)
	lock(c, id, 0x401, on, ntstatus.Success)
	lock(c, id, 0x402, off, ntstatus.Success)
	lock(c, id, 0x402, off, ntstatus.Success)

	plain := c.mustCreate(exclusive("plain"))
	lock(c, plain, 0x11, on, ntstatus.Success)
	lock(c, plain, 0x11, on, ntstatus.LockNotGranted)
}

// A LOCK that waits ends with the session, and the open is an orphan without that lock.
//
// Source: [MS-SMB2 3.3.7.1]
func TestLostConnectionEndsWaitForLock(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	c, other := mount(t, addr, "data"), mount(t, addr, "data")
	theirs := other.mustCreate(rw("f"))
	other.want(ntstatus.Success, cmdLock, lockBody(theirs, element{0, 1, lockExclusive | lockNow}))
	id := c.mustCreate(persistent(rw("f"), 1, 0))
	for _, lost := range []bool{true, false} {
		c.pend(id, element{0, 1, lockExclusive})
		if lost {
			c.lose(s, 1)
		}
		c = c.resume(addr)
		id = c.mustReclaim(id, 1)
		if st := s.cfg.FS.Stats(); st.WaitingLocks != 0 {
			t.Errorf("lost: %t: %d locks wait", lost, st.WaitingLocks)
		}
	}
	other.want(ntstatus.Success, cmdLock, lockBody(theirs, element{0, 1, lockUnlock}))
	other.want(ntstatus.Success, cmdLock, lockBody(theirs, element{0, 1, lockExclusive | lockNow}))
}
