//go:build linux

package shm

import (
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"lwio/internal/test/leakcheck"
	"lwio/rdma"
)

// TestScribbler: a peer that goes on to change what it published, its counters and
// its table, while the other side looks at them, gets nowhere but where it may
// write. Source: design decision 11
func TestScribbler(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	for i := range rounds {
		scribble(t, i%2 == 0)
	}
}

// scribble plays one round, in which the peer writes nonsense into its ring too, or
// only lies about its memory.
func scribble(t *testing.T, ring bool) {
	leakcheck.Check(t)
	r, victim, accepted := attack(t, nil)
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	inner := must[rdma.MemoryRegion](t)(victim.a.RegisterMemory(t.Context(), victim.mem[1<<14:1<<15], readable))
	victim.region.Close() // only the inner region may be touched
	fd, mem, err := newMemfd("scribbled", 1<<16, 0)
	if err == nil {
		err = populate(fd, mem)
	}
	if err != nil {
		t.Fatal(err)
	}
	share := notice{kind: noticeShare, memory: 1, slot: 3, token: 77, size: 1 << 16}
	r.say(share.appendTo(nil), fd)
	_ = unix.Close(fd)
	eventually(t, "the memory is mapped", func() bool { return victim.inside().targets.knows(77) })
	slot := r.own.slot(3)
	slot.base.Store(1 << 20)
	slot.size.Store(1 << 15)
	slot.key.Store(77 | slotWrite | slotRead)

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
			if ring {
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

// scribble writes something that is nearly right, and changes it at once.
func (r *raw) scribble(at rdma.RemoteAddr) {
	e := entry{
		kind: uint8(1 + rand.IntN(5)), flags: uint8(rand.IntN(16)), length: uint32(rand.IntN(64)),
		total: uint32(rand.IntN(1 << 10)), token: uint32(at.Token), addr: at.Addr + uint64(rand.IntN(1<<14)) - 8,
	}
	tail := r.own.tail.Load()
	pos := int(tail & uint64(len(r.own.ring)-1))
	e.store(r.own.ring, pos)
	r.own.tail.Store(tail + uint64(entrySize(int(e.length))))
	e.length, e.total, e.addr = e.length*4096, e.total*4096, e.addr-1<<15
	e.store(r.own.ring, pos)
}

// lie changes what counts and lends.
func (r *raw) lie(s slot) {
	switch rand.IntN(8) {
	case 0:
		r.own.head.Store(r.peer.tail.Load())
	case 1:
		r.own.want.Add(1)
		r.own.busy.Store(uint64(rand.IntN(300)))
	case 2:
		r.own.sleep.Store(rand.Uint64())
	case 3:
		s.base.Store(1<<20 - uint64(rand.IntN(1<<16)))
		s.size.Store(uint64(rand.IntN(1 << 18)))
		s.offset.Store(uint64(rand.IntN(1 << 17)))
	case 4:
		s.base.Store(1 << 20)
		s.size.Store(1 << 15)
		s.offset.Store(0)
		r.own.bell.Add(1)
	}
}
