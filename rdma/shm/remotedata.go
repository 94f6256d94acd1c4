//go:build linux

package shm

import (
	"errors"
	"net"
	"runtime/debug"
	"sync"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/shm/internal/ring"
)

// references has the data that the peer sent by reference and the program has not
// released. While a slot of the peer has such data, this side's segment says so, and the
// peer's close of the region waits.
type references struct {
	own  *ring.Segment
	maps *mappings
	peer string
	fail func(error) // ends the connection

	mu      sync.Mutex
	idle    sync.Cond // signalled when viewing becomes 0
	viewing int       // calls of View in progress
	over    bool      // all references have ended
	dropped map[*peerMemory]struct{}
	stock   []remoteData // unused references
}

// referenceStock is the number of references that are allocated at a time.
const referenceStock = 16

func (l *references) init(own *ring.Segment, maps *mappings, peer string, fail func(error)) {
	l.own, l.maps, l.peer, l.fail = own, maps, peer, fail
	l.idle.L = &l.mu
}

// remoteData is one reference. references.mu guards viewing and released; the other
// fields are constant.
type remoteData struct {
	all      *references
	g        *mapping
	buf      []byte
	viewing  int
	released bool
}

var _ rdma.RemoteData = (*remoteData)(nil)

// errReferenceOver means that the reference has ended.
var errReferenceOver = opError("remote data", "", rdma.StatusConnectionInvalid, net.ErrClosed)

// take makes a reference to n bytes of the peer's memory at a remote address. It returns
// nil if the bytes are not mapped, or not accessible.
func (l *references) take(token uint32, addr, n uint64) *remoteData {
	g := l.maps.find(token)
	if g == nil || n == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return nil
	}
	if g.refs == 0 {
		l.own.Slot(g.slot).References.Add(1) // before the slot is checked: see exports.takeBack
	}
	g.refs++
	buf := l.maps.check(g, addr, n, ring.SlotRead|ring.SlotWrite)
	if buf == nil {
		l.dropLocked(g)
		return nil
	}
	ring.RaceAcquire()
	g.mem.refs++
	d := l.newLocked()
	d.all, d.g, d.buf = l, g, buf
	return d
}

// newLocked returns an unused reference. A reference is never reused, because the program
// may keep it.
func (l *references) newLocked() *remoteData {
	if len(l.stock) == 0 {
		l.stock = make([]remoteData, referenceStock)
	}
	n := &l.stock[0]
	l.stock = l.stock[1:]
	return n
}

// dropLocked removes a reference from the count. Only the first and the last reference
// change the word in the segment, because the peer reads its cache line for every send by
// reference.
func (l *references) dropLocked(g *mapping) {
	if g.refs--; g.refs == 0 {
		l.own.Slot(g.slot).References.Add(^uint64(0))
	}
}

// keep reports whether a memory that the peer withdrew still has references. Its last
// reference then unmaps it.
func (l *references) keep(mem *peerMemory) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	mem.dropped = true
	if mem.refs == 0 {
		return false
	}
	if l.dropped == nil {
		l.dropped = make(map[*peerMemory]struct{})
	}
	l.dropped[mem] = struct{}{}
	return true
}

// close ends all references, and waits for the calls of View in progress.
func (l *references) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	for l.viewing > 0 {
		l.idle.Wait()
	}
	for mem := range l.dropped {
		l.maps.unmap(mem)
	}
	l.dropped = nil
}

// Len returns the number of bytes.
func (d *remoteData) Len() int { return len(d.buf) }

// View calls do with the peer's memory, which stays mapped meanwhile. A fault in the
// memory is an error, and ends the connection.
func (d *remoteData) View(do func(p []byte) error) (err error) {
	all := d.all
	all.mu.Lock()
	if all.over || d.released {
		all.mu.Unlock()
		return errReferenceOver
	}
	d.viewing++
	all.viewing++
	all.mu.Unlock()
	defer d.viewed()
	old := debug.SetPanicOnFault(true)
	defer func() {
		if e := recovered(old, recover()); e != nil {
			all.fail(e)
			err = opError("remote data", all.peer, rdma.StatusRemoteError, e)
		}
	}()
	return do(d.buf)
}

// viewed ends a call of View, also after a panic.
func (d *remoteData) viewed() {
	all := d.all
	all.mu.Lock()
	defer all.mu.Unlock()
	d.viewing--
	if all.viewing--; all.viewing == 0 {
		all.idle.Broadcast()
	}
	d.settleLocked()
}

// Release lets the peer close the region.
func (d *remoteData) Release() {
	all := d.all
	all.mu.Lock()
	defer all.mu.Unlock()
	if !d.released {
		d.released = true
		d.settleLocked()
	}
}

// settleLocked ends the reference if it is released and not viewed. After
// references.close it does nothing, because the segment may be unmapped.
func (d *remoteData) settleLocked() {
	all, mem := d.all, d.g.mem
	if !d.released || d.viewing > 0 || all.over {
		return
	}
	ring.RaceRelease()
	all.dropLocked(d.g)
	if mem.refs--; mem.refs == 0 && mem.dropped {
		delete(all.dropped, mem)
		all.maps.unmap(mem)
	}
}

// sendByReference puts a message into the ring without the bytes of its last piece, if
// the peer can access them. The first send from a region passes the region to the peer,
// and its data goes through the ring. need is the room that the message waits for. done
// is false if the message must be sent as an ordinary message.
//
// Source: [ND QueuePair.Send]
func (t *sender) sendByReference(s *softrdma.WorkRequest) (need int, done bool, err error) {
	last := len(s.Pieces) - 1
	if last < 0 {
		return 0, false, nil
	}
	p := &s.Pieces[last]
	head := s.Length - len(p.Buf)
	if head > compactMax || !p.Region.Acquire() {
		return 0, false, nil
	}
	defer p.Region.Release()
	if !t.c.exports.reachable(p.Region) {
		return 0, false, nil
	}
	if need, err := t.lacks(head); need > 0 || err != nil {
		return need, false, err
	}
	a, b := t.out.Payload(ring.HeaderSize, head)
	if err := errors.Join(t.data.fill(s, a), t.data.fill(s, b)); err != nil {
		return 0, false, err
	}
	at := p.Region.RemoteAddr()
	e := ring.Entry{
		Kind: ring.SendByReference, Flags: ring.FlagFirst, Length: uint32(head), Total: uint32(s.Length),
		Token: uint32(at.Token), Addr: at.Addr + uint64(within(p.Region.Bytes(), p.Buf)),
	}
	if s.Flags&rdma.FlagSolicitEvent != 0 {
		e.Flags |= ring.FlagSolicited
	}
	t.out.Publish(&e)
	s.Sent = s.Length
	t.c.waker.wake()
	return 0, true, nil
}

// byReference takes a message whose last bytes stay with the sender. It delivers them as
// a reference, or as a copy if the program does not accept references.
func (r *receiver) byReference(e *ring.Entry) error {
	recv := &r.c.qp.Receives
	recv.Lock()
	defer recv.Unlock()
	if e.Flags&ring.FlagFirst == 0 {
		return protocolError()
	}
	d := r.c.references.take(e.Token, e.Addr, uint64(e.Total-e.Length))
	if d == nil {
		return &violation{status: rdma.StatusAccessViolation, err: errNoRegion}
	}
	result := rdma.Result{Bytes: int(e.Total), Solicited: e.Flags&ring.FlagSolicited != 0}
	if r.c.qp.Config.AcceptByReference {
		result.RemoteData = d
	}
	err := r.beginLocked(recv)
	if err == nil {
		err = r.fillByReference(recv.CurrentLocked(), e, d, result.RemoteData == nil)
	}
	if err != nil || result.RemoteData == nil {
		d.Release()
	}
	if err != nil {
		return err
	}
	recv.FinishLocked(&result)
	r.results = true
	return nil
}

// fillByReference puts the payload into a receive. With all set it also copies the
// referenced bytes behind it.
func (r *receiver) fillByReference(p *softrdma.Receive, e *ring.Entry, d *remoteData, all bool) error {
	if int(e.Total) > p.Length {
		return &violation{status: rdma.StatusBufferOverflow, receive: rdma.StatusBufferOverflow, err: errTooLong}
	}
	a, b := r.in.Payload(e)
	ok := r.scatter(p.Pieces, 0, a) && r.scatter(p.Pieces, len(a), b)
	if ok && all {
		if err := d.View(func(remote []byte) error {
			ok = r.scatter(p.Pieces, int(e.Length), remote)
			return nil
		}); err != nil {
			return &violation{status: rdma.StatusRemoteError, receive: rdma.StatusRemoteError, err: err}
		}
	}
	if !ok {
		return &violation{status: rdma.StatusRemoteError, receive: rdma.StatusAccessViolation, err: errRegionClosed}
	}
	return nil
}
