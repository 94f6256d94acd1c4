package stream

import (
	"context"
	"fmt"

	"lwio/rdma"
	"lwio/rsock/internal/verbs"
)

// fetch is one transfer of an offer of the peer into memory of this side. receiver.mu guards
// it.
type fetch struct {
	busy  bool      // in flight
	offer *incoming // nil if the fetch is not in use
	into  []byte
	got   int // bytes that came, once it is not busy

	handle verbs.Handle // of into, if it is registered for this fetch alone
	over   verbs.Overlapped
	sge    [1]verbs.BufferEx
}

// fetcher moves offers of the peer into memory of this side by RDMA Read. A side that cannot
// read registers memory instead, and the peer writes to it. Fetches end in the order in
// which they began. receiver.mu guards it.
//
// Source: [WSD §5.2], [WSD §5.3]
type fetcher struct {
	c       *connection
	tx      *sender
	settled func(f *fetch, n int) // called when a fetch has ended, which brought n bytes

	aside  fetch            // into memory of the stream
	whole  []byte           // aside.into is the end of whole; the beginning is for data of the same item
	direct [maxDirect]fetch // into memory of a Read, a ring in the order of the stream
	first  int              // index in direct of the oldest
	used   int              // entries of direct in use
	busy   int              // fetches in flight
	broken bool             // a fetch brought less than its size

	ready      int    // size of descriptor, in bytes, while the peer may write
	readyFor   *fetch // the fetch that the peer writes for, or nil
	descriptor [MaxDescriptor]byte

	temp       rdma.Memory  // for small reads; nil if there is none
	tempHandle verbs.Handle // of temp, on a side that reads
	tempUsed   bool         // since the last trim
	stuck      bool         // memory stays with the peer until the socket is closed
	spare      []byte       // for small reads without temp
	spareAt    verbs.BufferEx
}

func (g *fetcher) init(c *connection, tx *sender, settled func(*fetch, int)) {
	g.c, g.tx, g.settled = c, tx, settled
	g.aside.over.Complete = func(*verbs.Overlapped) { g.fetched(&g.aside) }
	for i := range g.direct {
		d := &g.direct[i]
		d.over.Complete = func(*verbs.Overlapped) { g.fetched(d) }
	}
}

// isIdle reports whether no fetch is in flight or waits for its Read.
func (g *fetcher) isIdle() bool { return g.busy == 0 && g.used == 0 }

// oldest returns the oldest fetch into memory of a Read.
func (g *fetcher) oldest() *fetch { return &g.direct[g.first] }

// popOldest frees the oldest fetch into memory of a Read. Precondition: it is not busy.
func (g *fetcher) popOldest() {
	f := g.oldest()
	f.offer, f.into = nil, nil
	g.first, g.used = (g.first+1)%maxDirect, g.used-1
}

// isAside reports whether a part of an offer is being fetched into memory of the stream.
func (g *fetcher) isAside(t *incoming) bool { return g.aside.busy && g.aside.offer == t }

// placed returns how many bytes of an offer are in memory of a Read that has not taken them,
// or in flight.
func (g *fetcher) placed(t *incoming) (n int) {
	for i := range g.used {
		switch d := &g.direct[(g.first+i)%maxDirect]; {
		case d.offer != t:
		case d.busy:
			n += len(d.into)
		default:
			n += d.got
		}
	}
	if g.isAside(t) {
		n += len(g.aside.into)
	}
	return n
}

// portion returns how many bytes of an offer one fetch into so much room moves.
func (g *fetcher) portion(t *incoming, room int) int {
	return int(min(t.left(), uint64(max(room, 0)), uint64(g.c.sock.Options().MaxRdmaSize)))
}

// startDirect fetches as much of an offer as fits into p, if that is worth a fetch, and
// returns the number of bytes.
func (g *fetcher) startDirect(t *incoming, p []byte, follows bool) int {
	least := directRead
	if !follows {
		least = min(least, g.portion(t, directRead))
	}
	n := g.portion(t, len(p))
	if n < least || g.busy >= g.c.depth || g.used == maxDirect {
		return 0
	}
	f := &g.direct[(g.first+g.used)%maxDirect]
	if !g.startInto(f, t, p[:n]) || !f.busy {
		return 0
	}
	g.used++
	return n
}

// startInto registers p and fetches len(p) bytes of an offer into p. It returns false if
// that is not possible.
//
// Source: [WSD §5.2], [WSD §5.3]
func (g *fetcher) startInto(f *fetch, t *incoming, p []byte) bool {
	if t.size == 0 {
		return g.startWritten(f, t, p)
	}
	h, err := g.c.sock.RegisterMemory(context.Background(), p, verbs.MemWrite)
	if err != nil {
		return false
	}
	f.handle = h
	g.startRead(f, t, verbs.BufferEx{Handle: h, Length: len(p)}, p)
	return true
}

// startAside fetches the next part of an offer into memory of the stream: temp, or spare if
// temp cannot be allocated. It returns false if that is not possible.
func (g *fetcher) startAside(t *incoming) bool {
	into, at := g.spare, g.spareAt
	if temp := g.allocateTemp(); temp != nil {
		into, at = temp, verbs.BufferEx{Handle: g.tempHandle}
	}
	into = into[:g.portion(t, len(into))]
	g.whole = into
	if t.size == 0 {
		return g.startWritten(&g.aside, t, into)
	}
	at.Length = len(into)
	g.startRead(&g.aside, t, at, into)
	return true
}

// allocateTemp returns memory for small reads, or nil. Only a side that reads registers the
// memory here. Memory that the peer writes to must be the only region on its pages: then the
// provider can revoke the pages from a peer that does not stop.
func (g *fetcher) allocateTemp() []byte {
	g.tempUsed = true
	if g.temp != nil {
		return g.temp.Bytes()
	}
	budget := g.c.cfg.Memory
	if !budget.take(fetchSize) {
		return nil
	}
	m, err := g.c.sock.Alloc(context.Background(), fetchSize)
	if err != nil {
		budget.give(fetchSize)
		return nil
	}
	if g.c.canRead() {
		g.tempHandle, err = g.c.sock.RegisterMemory(context.Background(), m.Bytes(), verbs.MemWrite)
	}
	if err != nil {
		_ = m.Close() // the fetch goes on without it
		budget.give(fetchSize)
		return nil
	}
	g.temp = m
	g.c.trimLater()
	return m.Bytes()
}

// trimTemp frees the memory for small reads if it was not used since the last call, and
// reports whether the memory is still there. inUse says that the memory has unread data.
func (g *fetcher) trimTemp(inUse bool) bool {
	if g.temp == nil || g.stuck {
		return false
	}
	if g.tempUsed || g.busy > 0 || inUse {
		g.tempUsed = false
		return true
	}
	if g.tempHandle == (verbs.Handle{}) || g.c.sock.DeregisterMemory(g.tempHandle) == nil {
		_ = g.temp.Close() // a failure leaves nothing to do
		g.temp, g.tempHandle = nil, verbs.Handle{}
		g.c.cfg.Memory.give(fetchSize)
	}
	return g.temp != nil
}

// startRead posts an RDMA Read. A read that cannot be posted ends the stream.
func (g *fetcher) startRead(f *fetch, t *incoming, at verbs.BufferEx, into []byte) {
	f.sge[0] = at
	err := g.c.sock.RdmaRead(&f.over, f.sge[:], t.descriptor[:t.size], uint32(t.moved+uint64(t.inFlight)), 0)
	switch errno := verbs.ErrnoOf(err); {
	case err == nil:
		g.begun(f, t, into)
		return
	case errno == verbs.EINVAL, errno == verbs.EFAULT:
		g.c.fail(violation("%v: transfer %d: %v", TypeOffer, t.id, err))
	default:
		g.c.failBelow(err)
	}
	g.release(f)
}

// startWritten makes p ready for the peer to write to. It returns false if p cannot be
// registered.
//
// Source: [WSD §5.3]
func (g *fetcher) startWritten(f *fetch, t *incoming, p []byte) bool {
	n, err := g.c.sock.RegisterRdmaMemory(context.Background(), p, verbs.MemWrite, g.descriptor[:])
	if err != nil {
		return false
	}
	g.ready, g.readyFor = n, f
	g.begun(f, t, p)
	g.tx.enqueue(Message{
		Type: TypeReady, Flags: FlagYours, Transfer: t.id, Total: uint64(len(p)), Descriptor: g.descriptor[:n],
	})
	g.tx.flush()
	return true
}

// begun counts a fetch that is in flight.
func (g *fetcher) begun(f *fetch, t *incoming, into []byte) {
	f.busy, f.offer, f.into, f.got = true, t, into, 0
	t.inFlight += len(into)
	g.busy++
}

// release deregisters the memory that is registered for one fetch. If that fails, the stream
// ends, and the memory is neither read nor used again. The close of the socket ends the
// connection and then releases the memory.
func (g *fetcher) release(f *fetch) {
	var err error
	if f.handle != (verbs.Handle{}) {
		err = g.c.sock.DeregisterMemory(f.handle)
		f.handle = verbs.Handle{}
	}
	if g.readyFor == f {
		err = g.c.sock.DeregisterRdmaMemory(g.descriptor[:g.ready])
		g.readyFor = nil
	}
	if err != nil {
		g.stuck = true
		g.c.fail(fmt.Errorf("memory stays with the peer: %w", err))
	}
}

// fetched handles the completion of an RDMA Read.
func (g *fetcher) fetched(f *fetch) {
	if g.c.dead.Load() {
		return
	}
	n, err := g.c.sock.GetResult(&f.over)
	if err != nil {
		g.c.lost(err)
	}
	if g.broken = g.broken || n < len(f.into); g.broken {
		n = 0 // bytes of this fetch, or of a fetch before it, are missing
	}
	g.settle(f, n)
}

// takeWritten handles the peer's message that it has written to the memory of a TypeReady.
//
// Source: [WSD §5.3]
func (g *fetcher) takeWritten(m *Message) error {
	f := g.readyFor
	if f == nil || f.offer.id != m.Transfer || m.Total != uint64(len(f.into)) {
		return violation("%v: %d bytes of transfer %d, which were not asked for", m.Type, m.Total, m.Transfer)
	}
	g.settle(f, len(f.into))
	return nil
}

// endWritten ends the fetch of an offer for which the peer writes no more. It returns false
// if there is no such fetch.
func (g *fetcher) endWritten(t *incoming) bool {
	f := g.readyFor
	if f == nil || f.offer != t {
		return false
	}
	g.settle(f, 0)
	return true
}

// settle ends a fetch, which brought n bytes.
func (g *fetcher) settle(f *fetch, n int) {
	t := f.offer
	if g.release(f); g.stuck {
		n = 0
	}
	f.busy, f.got = false, n
	g.busy--
	t.inFlight -= len(f.into)
	t.rest -= uint64(n)
	t.moved += uint64(n)
	g.c.bulkIn.add(n, &g.c.bulkOut)
	g.c.counts.bytesFetched.Add(uint64(n))
	g.settled(f, n)
}

// abandon ends a fetch that waits for a write of the peer, if the connection has failed.
func (g *fetcher) abandon() {
	if f := g.readyFor; f != nil && g.c.failure() != nil {
		g.settle(f, 0)
	}
}

// held returns how many bytes of the budget the fetcher holds.
func (g *fetcher) held() int {
	if g.temp == nil {
		return 0
	}
	return fetchSize
}
