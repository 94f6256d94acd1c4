package stream

import (
	"io"

	"lwio/rsock/internal/verbs"
)

// input is the received part of the stream that the program has not read: data that is here
// and offers of the peer, in order. receiver.mu guards it.
type input struct {
	c  *connection
	tx *sender

	items  fifo[item]
	last   uint32 // id of the last offer of the peer
	open   int    // offers of the peer that are not finished
	target []byte // memory of a Read that waits for data
	filled int    // bytes of data in target

	views   int  // calls of WriteTo that use data of the stream
	discard bool // CloseRead was called
	eof     bool // the peer has ended its stream
	budget  int  // bytes of the budget that hold offers of a peer that has closed

	fetch fetcher

	progressed func() // sends the messages that the end of an offer leads to
}

// item is a part of the stream: data that is here, then data that the peer offers.
type item struct {
	data  []byte    // not read
	chunk *chunk    // the memory of data, or nil
	offer *incoming // or nil
}

// incoming is one offer of the peer. receiver.mu guards it.
type incoming struct {
	id         uint32
	rest       uint64 // bytes that are not fetched
	moved      uint64 // bytes that are fetched
	inFlight   int    // bytes of rest with a fetch in flight
	size       int    // of descriptor, in bytes; 0: the peer writes to memory of this side
	descriptor [MaxDescriptor]byte
	withdrawn  bool // the peer wants to keep the rest
	over       bool // no more bytes come
}

// left returns how many bytes of an offer are neither fetched nor in flight.
func (t *incoming) left() uint64 {
	if t.withdrawn {
		return 0
	}
	return t.rest - uint64(t.inFlight)
}

// init makes room for the items of the given number of messages.
func (in *input) init(c *connection, tx *sender, messages int) {
	in.c, in.tx = c, tx
	in.items.init(messages + maxIncoming)
	in.fetch.init(c, tx, in.settled)
}

// takeData handles bytes of the stream. It copies them to the memory of a Read that waits,
// and keeps the rest.
//
// Source: [WSD §5.1]
func (in *input) takeData(p []byte) (kept bool, err error) {
	switch {
	case in.eof:
		return false, violation("%v after the end of the stream", TypeData)
	case in.discard:
		return false, nil
	}
	in.c.bulkIn.add(len(p), &in.c.bulkOut)
	if in.items.len() == 0 && len(in.target) > in.filled {
		n := copy(in.target[in.filled:], p)
		in.filled += n
		p = p[n:]
	}
	in.c.readWait.bulk = in.c.bulkIn.isBulk()
	in.c.signal(&in.c.readWait)
	if len(p) == 0 {
		return false, nil
	}
	c := newChunk(len(p))
	in.items.push(item{data: c.fill(p), chunk: c})
	return true, nil
}

// takeOffer handles an offer of the peer.
//
// Source: [WSD §5.2], [WSD §5.3]
func (in *input) takeOffer(m *Message) (kept bool, err error) {
	rest := m.Total - uint64(len(m.Payload))
	switch {
	case in.eof:
		return false, violation("%v after the end of the stream", m.Type)
	case m.Transfer != in.last+1:
		return false, violation("%v: transfer %d after %d", m.Type, m.Transfer, in.last)
	case in.open == maxIncoming:
		return false, violation("%v: more than %d unfinished", m.Type, maxIncoming)
	case (len(m.Descriptor) > 0) != in.c.canRead():
		return false, violation("%v: a descriptor of %d bytes for this side", m.Type, len(m.Descriptor))
	case rest > verbs.MaxOffset:
		return false, violation("%v: %d bytes", m.Type, rest)
	}
	in.last++
	in.open++
	t := &incoming{id: m.Transfer, rest: rest, size: len(m.Descriptor)}
	copy(t.descriptor[:], m.Descriptor)
	if in.discard {
		in.finish(t, t.rest)
		return false, nil
	}
	it := item{offer: t}
	if len(m.Payload) > 0 {
		it.chunk = newChunk(len(m.Payload))
		it.data = it.chunk.fill(m.Payload)
	}
	in.items.push(it)
	in.c.signal(&in.c.readWait)
	return it.chunk != nil, nil
}

// takeWithdrawal handles the peer's message that it wants to keep the rest of an offer. A
// side that reads answers with the number of bytes that it has. On a side that does not
// read, the message means that the peer writes no more.
//
// Source: [WSD §7]
func (in *input) takeWithdrawal(m *Message) error {
	if m.Transfer > in.last || m.Status != FailWithdrawn || m.Total != 0 {
		return violation("%v: transfer %d, status %d", m.Type, m.Transfer, m.Status)
	}
	for i := range in.items.len() {
		t := in.items.at(i).offer
		if t == nil || t.id != m.Transfer || t.over {
			continue
		}
		t.withdrawn = true
		if in.fetch.endWritten(t) || t.inFlight > 0 {
			return nil // settled handles the end of the fetch
		}
		in.finish(t, 0)
		in.c.signal(&in.c.readWait)
		return nil
	}
	return nil // the offer has ended meanwhile, and the peer knows from another message
}

// finish ends an offer, and sends the end to the peer unless the peer knows it. dropped is
// the number of bytes that were not moved but count as moved.
func (in *input) finish(t *incoming, dropped uint64) {
	t.over = true
	in.open--
	if t.size > 0 || dropped > 0 {
		in.tx.enqueue(Message{Type: TypeDone, Flags: FlagYours, Transfer: t.id, Total: t.moved + dropped})
	}
	t.rest = 0
}

// refuse gives an offer up because there is no memory.
//
// Source: [WSD §5.4]
func (in *input) refuse(t *incoming) {
	t.over, t.rest = true, 0
	in.open--
	in.tx.enqueue(Message{Type: TypeFail, Flags: FlagYours, Transfer: t.id, Status: FailNoBuffers, Total: t.moved})
	in.tx.flush()
	in.c.signal(&in.c.readWait)
}

// settled handles the end of a fetch that brought n bytes.
func (in *input) settled(f *fetch, n int) {
	t := f.offer
	if f == &in.fetch.aside {
		in.store(t, n)
		f.offer, f.into = nil, nil
	}
	switch {
	case t.inFlight > 0:
	case t.rest == 0, t.withdrawn:
		in.finish(t, 0)
	case in.discard:
		in.finish(t, t.rest)
	}
	in.c.signal(&in.c.readWait)
	in.c.signal(&in.c.closeWait)
}

// store makes n bytes that were fetched into memory of the stream the data of their item.
func (in *input) store(t *incoming, n int) {
	g := &in.fetch
	for i := range in.items.len() {
		it := in.items.at(i)
		if it.offer == t && n == len(g.aside.into) {
			unread := len(it.data) // the data before the fetch; whole has it too
			in.release(it.free())
			it.data = g.whole[len(g.whole)-n-unread:]
			break
		}
	}
	g.whole = nil
}

// fetchAside fetches the next part of an offer into memory of the stream.
func (in *input) fetchAside(t *incoming) {
	if !in.fetch.startAside(t) {
		in.refuse(t)
	}
}

// drain fetches the offers of a peer that has closed, so that the peer does not wait for the
// program of this side. It returns true when nothing is left to fetch. An offer that would
// take too much memory, or more than one RDMA Read, waits for the program.
func (in *input) drain() bool {
	var total uint64
	for i := range in.items.len() {
		if t := in.items.at(i).offer; t != nil {
			total += t.rest
		}
	}
	if !in.fetch.isIdle() || total > drainLimit {
		return false
	}
	for i := range in.items.len() {
		it := in.items.at(i)
		if it.offer == nil || it.offer.over {
			continue
		}
		if it.offer.size > 0 && it.offer.rest > uint64(in.c.sock.Options().MaxRdmaSize) {
			return false
		}
		size := len(it.data) + int(it.offer.rest)
		if !in.c.cfg.Memory.take(size) {
			return false // the program's Read fetches it
		}
		whole := make([]byte, size)
		before := copy(whole, it.data)
		if in.fetch.startInto(&in.fetch.aside, it.offer, whole[before:]) {
			in.fetch.whole = whole
			in.budget += size
		} else {
			in.c.cfg.Memory.give(size) // the program's Read fetches it
		}
		return false
	}
	return true
}

// copyTo copies data that is here to p, and grants its credits.
func (in *input) copyTo(p []byte) (n int) {
	freed := 0
	for n < len(p) && in.items.len() > 0 {
		it := in.items.at(0)
		k := copy(p[n:], it.data)
		n += k
		if it.data = it.data[k:]; len(it.data) > 0 {
			break
		}
		freed += it.free()
		if it.offer != nil && !in.isDone(it.offer) {
			break
		}
		in.items.pop()
	}
	in.release(freed)
	return n
}

// dropRead drops the first item if it is read.
func (in *input) dropRead() {
	if in.items.len() == 0 {
		return
	}
	if it := in.items.at(0); len(it.data) == 0 && it.offer != nil && in.isDone(it.offer) {
		in.items.pop()
	}
}

// isDone reports whether an offer is over and its Read has all bytes that came.
func (in *input) isDone(t *incoming) bool {
	g := &in.fetch
	return t.over && (g.used == 0 || g.oldest().offer != t)
}

// free drops the memory of an item that is read, and returns how many credits that frees.
func (it *item) free() int {
	it.data = nil
	if it.chunk == nil {
		return 0
	}
	it.chunk.drop()
	it.chunk = nil
	return 1
}

// release grants n credits again.
func (in *input) release(n int) {
	if n > 0 {
		in.tx.released(n)
	}
}

// discardAll drops the data that is here and the offers. Data of a fetch in flight is dropped
// when the fetch ends.
func (in *input) discardAll() {
	in.discard = true
	freed := 0
	for i := range in.items.len() {
		it := in.items.at(i)
		freed += it.free()
		if t := it.offer; t != nil && !t.over && t.inFlight == 0 {
			in.finish(t, t.rest)
		}
	}
	in.release(freed)
	in.tx.flush()
}

// ended returns why no more data comes, or nil.
func (in *input) ended() error {
	if in.eof {
		return io.EOF
	}
	return in.c.failure()
}
