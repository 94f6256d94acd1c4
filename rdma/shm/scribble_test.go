//go:build linux

package shm

import (
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"lwio/internal/test/leakcheck"
	"lwio/rdma"
	"lwio/rdma/shm/internal/ring"
)

// A peer that changes published entries, its counters and its table while the other side
// reads them can write only its region. Source: design decision 11
func TestScribblingPeerWritesOnlyItsRegion(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	for i := range rounds {
		scribble(t, i%2 == 0)
	}
}

// scribble plays one round. The peer also writes arbitrary bytes into its ring if entries
// is set; otherwise it only reports wrong memory.
func scribble(t *testing.T, entries bool) {
	leakcheck.Check(t)
	r, victim, accepted := attack(t, nil)
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	inner := must[rdma.MemoryRegion](t)(victim.a.RegisterMemory(t.Context(), victim.mem[1<<14:1<<15], readable))
	victim.region.Close() // only the inner region may be accessed
	fd, mem, err := ring.NewMemfd("scribbled", 1<<16)
	if err == nil {
		err = ring.Populate(fd, mem)
	}
	if err != nil {
		t.Fatal(err)
	}
	share := notice{kind: noticeShare, memory: 1, slot: 3, token: 77, size: 1 << 16}
	r.say(share.appendTo(nil), fd)
	_ = unix.Close(fd)
	eventually(t, "the memory is mapped", func() bool { return victim.inside().mappings.knows(77) })
	slot := r.own.Slot(3)
	slot.Base.Store(1 << 20)
	slot.Size.Store(1 << 15)
	slot.Key.Store(77 | ring.SlotWrite | ring.SlotRead)

	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		at := inner.RemoteAddr()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if entries {
				r.scribble(at)
			}
			r.lie(slot)
			if i%64 == 0 {
				r.say([]byte{noticeWake})
			}
		}
	}()
	var res [16]rdma.Result
	local := must[rdma.MemoryRegion](t)(victim.a.RegisterMemory(t.Context(), make([]byte, 1<<15), readable))
	for i := range 3000 {
		op := []rdma.Op{rdma.OpWrite, rdma.OpRead, rdma.OpSend}[i%3]
		sgl := []rdma.SGE{{Region: local, Length: 1 + i*5%(1<<14)}}
		if _, err := victim.qp.Post([]rdma.Request{{Op: op, SGL: sgl, Remote: rdma.RemoteAddr{Addr: 1<<20 + uint64(i%100), Token: 77}}}); err != nil {
			_, _ = victim.icq.Poll(res[:])
		}
		_, _ = victim.rcq.Poll(res[:])
	}
	victim.conn.Close()
	close(stop)
	<-stopped
	for i, b := range victim.mem {
		if b != 0 && (i < 1<<14 || i >= 1<<15) {
			t.Fatalf("byte %d was written", i)
		}
	}
	_ = unix.Munmap(mem)
	r.nc.Close()
	victim.a.Close()
}

// scribble writes an entry that is almost right, and changes it at once.
func (r *raw) scribble(at rdma.RemoteAddr) {
	e := ring.Entry{
		Kind: uint8(1 + rand.IntN(5)), Flags: uint8(rand.IntN(16)), Length: uint32(rand.IntN(64)),
		Total: uint32(rand.IntN(1 << 10)), Token: uint32(at.Token), Addr: at.Addr + uint64(rand.IntN(1<<14)) - 8,
	}
	tail := r.own.Tail.Load()
	pos := int(tail & uint64(len(r.own.Ring)-1))
	e.Store(r.own.Ring, pos)
	r.own.Tail.Store(tail + uint64(ring.EntrySize(int(e.Length))))
	e.Length, e.Total, e.Addr = e.Length*4096, e.Total*4096, e.Addr-1<<15
	e.Store(r.own.Ring, pos)
}

// lie changes counters and slots.
func (r *raw) lie(s *ring.Slot) {
	switch rand.IntN(8) {
	case 0:
		r.own.Head.Store(r.peer.Tail.Load())
	case 1:
		r.own.Waiting.Add(1)
		r.own.Busy.Store(uint64(rand.IntN(300)))
	case 2:
		r.own.Sleep.Store(rand.Uint64())
	case 3:
		s.Base.Store(1<<20 - uint64(rand.IntN(1<<16)))
		s.Size.Store(uint64(rand.IntN(1 << 18)))
		s.Offset.Store(uint64(rand.IntN(1 << 17)))
	case 4:
		s.Base.Store(1 << 20)
		s.Size.Store(1 << 15)
		s.Offset.Store(0)
		r.own.Futex.Add(1)
	}
}
