//go:build linux

package shm

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"lwio/rdma"
	"lwio/rdma/shm/internal/ring"
)

// A connection that has carried no message has no page of a ring, and short messages take one
// page of each ring. So an unauthenticated connection takes the words, one page or two, and
// its descriptors.
func TestConnectionTakesNoRingBeforeItsFirstMessage(t *testing.T) {
	connected(t, nil, 1<<16) // the network poller takes its descriptors
	before := descriptors(t)
	active, passive := connected(t, nil, 1<<16)
	if got := descriptors(t) - before; got > 9 { // of both sides: a socket, a doorbell and the memory of the test; the listener's
		t.Errorf("a connection takes %d descriptors", got)
	}
	rings := func() int {
		return resident(t, active.inside().own.Ring) + resident(t, passive.inside().own.Ring)
	}
	if n := rings(); n != 0 {
		t.Errorf("the rings have %d bytes before the first message", n)
	}
	for range 4 {
		if _, err := passive.qp.PostReceive([]rdma.ReceiveRequest{{SGL: passive.sge(0, 256)}}); err != nil {
			t.Fatal(err)
		}
		active.post(t, rdma.Request{Op: rdma.OpSend, SGL: active.sge(0, 256)})
		next(t, active.icq)
		next(t, passive.rcq)
	}
	if n := rings(); n > 2*os.Getpagesize() {
		t.Errorf("the rings have %d bytes after four short messages", n)
	}
	t.Logf("floor of a side: words %d bytes, ring %d bytes after its first messages", ring.SegmentSize, os.Getpagesize())
}

// descriptors returns the number of descriptors of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// The pages of memory with the seal F_SEAL_FUTURE_WRITE cannot be returned to the system. A
// ring therefore does not have it: idle connections would keep both rings.
func TestWriteSealKeepsPages(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		fd := must[int](t)(unix.MemfdCreate("ring", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING))
		defer unix.Close(fd)
		if err := unix.Ftruncate(fd, ring.DefaultSize); err != nil {
			t.Fatal(err)
		}
		mem := must[[]byte](t)(unix.Mmap(fd, 0, ring.DefaultSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED))
		defer unix.Munmap(mem)
		if sealed {
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_FUTURE_WRITE); err != nil {
				t.Fatal(err)
			}
		}
		for i := 0; i < len(mem); i += os.Getpagesize() {
			mem[i] = 1
		}
		err := unix.Madvise(mem, unix.MADV_REMOVE)
		if kept := resident(t, mem) == len(mem); kept != sealed || errors.Is(err, unix.EPERM) != sealed {
			t.Errorf("sealed %v: pages kept %v, %v", sealed, kept, err)
		}
	}
}

// A peer that writes into this side's ring, or removes its pages, changes only its own input.
func TestPeerThatWritesIntoRingChangesItsOwnInput(t *testing.T) {
	active, passive := connected(t, nil, 1<<16)
	seen := passive.inside().own.Ring // the ring that the active side reads
	for round := range 8 {
		if _, err := active.qp.PostReceive([]rdma.ReceiveRequest{{SGL: active.sge(1<<12, 256)}}); err != nil {
			t.Fatal(err)
		}
		passive.post(t, rdma.Request{Op: rdma.OpSend, SGL: passive.sge(0, 256)})
		if res := next(t, passive.icq); res.Status != rdma.StatusSuccess {
			t.Fatalf("round %d: %+v", round, res)
		}
		next(t, active.rcq)
		eventually(t, "the ring is empty", passive.drained)
		switch round % 2 {
		case 0:
			for i := range seen {
				seen[i] = 0xFF
			}
		case 1:
			_ = unix.Madvise(seen, unix.MADV_REMOVE)
		}
	}
	passive.deliver(t, active)
}
