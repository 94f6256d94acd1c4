package smbserver

import (
	"fmt"
	"testing"

	"lwio/internal/ntstatus"
)

// Locks are charged as long as they are held. Opens that have given thousands of locks back hold no more
// memory than others: not in the table of the file, and not for the state.
func TestReturnedLocksLeaveNoMemory(t *testing.T) {
	_, _, addr := newRestarts(t)
	c := mount(t, addr, "data")
	const opens, locks, most = 24, 3000, 48 << 10
	var on, off []element
	for i := range locks {
		on = append(on, element{uint64(i) * 10, 1, 2 | 16})
		off = append(off, element{uint64(locks-1-i) * 10, 1, 4})
	}
	off = off[1:] // one lock stays
	var ids [opens][16]byte
	for i := range ids {
		ids[i] = c.mustCreate(persistent(exclusive(fmt.Sprintf("f%d", i)), i+1, 0))
	}
	before := heapInUse()
	for _, id := range ids {
		c.want(ntstatus.Success, cmdLock, unnumbered(id, on...))
		c.want(ntstatus.Success, cmdLock, unnumbered(id, off...))
	}
	if n := (int64(heapInUse()) - int64(before)) / opens; n > most {
		t.Errorf("%d bytes for each open, at most %d expected", n, most)
	}
}

// The most locks that one open may have fit into one request, and into one batch of the state.
func TestMostLocksOfAnOpenAreOneRequest(t *testing.T) {
	_, _, addr := newRestarts(t)
	c := mount(t, addr, "data")
	const locks = 4096 // the default of vfs.Config.MaxOpenLocks
	id := c.mustCreate(persistent(exclusive("f"), 1, 0))
	var on, off []element
	for i := range locks {
		on = append(on, element{uint64(i) * 10, 1, 2 | 16})
		off = append(off, element{uint64(locks-1-i) * 10, 1, 4})
	}
	c.want(ntstatus.Success, cmdLock, sequenced(lockBody(id, on...), 1, 1))
	c.want(ntstatus.Success, cmdLock, sequenced(lockBody(id, off...), 1, 2))
}
