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

// lend puts a message into the ring without the bytes of its last piece, if the peer can
// reach those: from the first of a region that it cannot, it is given the region. need
// is the room that it waits for; not done, it goes as others do.
//
// Source: [ND QueuePair.Send]
func (t *sender) lend(s *softrdma.WorkRequest) (need int, done bool, err error) {
	last := len(s.Pieces) - 1
	if last < 0 {
		return 0, false, nil
	}
	p := &s.Pieces[last]
	head := s.Length - len(p.Buf)
	if head > briefWrite || !p.Region.Acquire() {
		return 0, false, nil
	}
	defer p.Region.Release()
	if !t.c.lendable(p.Region) {
		return 0, false, nil
	}
	if need, err := t.lacks(head); need > 0 || err != nil {
		return need, false, err
	}
	a, b := t.out.Payload(ring.HeaderSize, head)
	if err := errors.Join(t.fill(s, a), t.fill(s, b)); err != nil {
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
	t.c.wake()
	return 0, true, nil
}

// lendable tells whether the peer has mapped what a region lies in. If it was not given
// that yet, though the region has a remote right, it is now, for the next time. The
// caller holds a reference to the region.
func (c *conn) lendable(r *softrdma.Region) bool {
	b, ok := r.Backing().(*backing)
	if !ok {
		return false
	}
	b.mu.Lock()
	by, slot := b.by, b.slot
	b.mu.Unlock()
	if by == nil && c.slotRights(r) != 0 {
		c.offer(r)
	}
	return by == c && c.peer.Slot(slot).Mapped.Load() == uint64(r.RemoteAddr().Token)|ring.SlotMapped
}

// loans are what the peer has lent. Its table and this side's segment say so as long as
// one is not released, so that the peer's close of the region waits for that.
type loans struct {
	mu      sync.Mutex
	idle    sync.Cond // signalled when using becomes 0
	using   int       // calls of Use
	over    bool      // there are no loans any more
	dropped map[*peerMemory]struct{}
	stock   []loan // to be used
}

// loanStock is how many loans are made at a time.
const loanStock = 16

func (l *loans) init() { l.idle.L = &l.mu }

// loan is one of them. What is not constant is guarded by loans.mu.
type loan struct {
	c        *conn
	g        *target
	buf      []byte
	using    int
	released bool
}

var _ rdma.RemoteData = (*loan)(nil)

// errLoanOver says that a loan is.
var errLoanOver = opError("loan", "", rdma.StatusConnectionInvalid, net.ErrClosed)

// borrow takes n bytes of the peer's memory that it calls addr, or is nil if they are
// not mapped, or not lent.
func (c *conn) borrow(token uint32, addr, n uint64) *loan {
	g := c.targets.find(token)
	if g == nil || n == 0 {
		return nil
	}
	c.loans.mu.Lock()
	defer c.loans.mu.Unlock()
	if c.loans.over {
		return nil
	}
	if g.loans == 0 {
		c.own.Slot(g.slot).References.Add(1) // before the slot is looked at: see takeBack
	}
	g.loans++
	buf := c.check(g, addr, n, ring.SlotRead|ring.SlotWrite)
	if buf == nil {
		c.endLoanLocked(g)
		return nil
	}
	ring.RaceAcquire()
	g.mem.loans++
	l := c.loans.newLocked()
	l.c, l.g, l.buf = c, g, buf
	return l
}

// newLocked makes a loan. Each is used once, as others may keep it for longer.
func (l *loans) newLocked() *loan {
	if len(l.stock) == 0 {
		l.stock = make([]loan, loanStock)
	}
	n := &l.stock[0]
	l.stock = l.stock[1:]
	return n
}

// endLoanLocked counts a loan out. The peer is told of the last, and of the first: it looks
// into the same cache line whenever it lends.
func (c *conn) endLoanLocked(g *target) {
	if g.loans--; g.loans == 0 {
		c.own.Slot(g.slot).References.Add(^uint64(0))
	}
}

// keep tells whether a memory that the peer withdrew has loans in it; with the last of
// them it is unmapped.
func (l *loans) keep(mem *peerMemory) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	mem.dropped = true
	if mem.loans == 0 {
		return false
	}
	if l.dropped == nil {
		l.dropped = make(map[*peerMemory]struct{})
	}
	l.dropped[mem] = struct{}{}
	return true
}

// close ends all loans, and waits for those that are being used.
func (l *loans) close(t *targets) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	for l.using > 0 {
		l.idle.Wait()
	}
	for mem := range l.dropped {
		t.unmap(mem)
	}
	l.dropped = nil
}

// Len is how many bytes there are.
func (l *loan) Len() int { return len(l.buf) }

// Use calls do with the peer's memory, which stays mapped meanwhile.
func (l *loan) View(do func(p []byte) error) (err error) {
	all := &l.c.loans
	all.mu.Lock()
	if all.over || l.released {
		all.mu.Unlock()
		return errLoanOver
	}
	l.using++
	all.using++
	all.mu.Unlock()
	defer l.used()
	old := debug.SetPanicOnFault(true)
	defer func() {
		if e := recovered(old, recover()); e != nil {
			l.c.end(l.c.endingFor(e))
			err = opError("loan", l.c.peerName, rdma.StatusRemoteError, e)
		}
	}()
	return do(l.buf)
}

// used counts out a call of Use, whichever way it ended.
func (l *loan) used() {
	all := &l.c.loans
	all.mu.Lock()
	defer all.mu.Unlock()
	l.using--
	if all.using--; all.using == 0 {
		all.idle.Broadcast()
	}
	l.settleLocked()
}

// Release lets the peer close the region.
func (l *loan) Release() {
	all := &l.c.loans
	all.mu.Lock()
	defer all.mu.Unlock()
	if !l.released {
		l.released = true
		l.settleLocked()
	}
}

// settleLocked says that the loan is over, if it is released and not being used. Once
// there are no loans the segment may be unmapped, and what is dropped is.
func (l *loan) settleLocked() {
	all, mem := &l.c.loans, l.g.mem
	if !l.released || l.using > 0 || all.over {
		return
	}
	ring.RaceRelease()
	l.c.endLoanLocked(l.g)
	if mem.loans--; mem.loans == 0 && mem.dropped {
		delete(all.dropped, mem)
		l.c.targets.unmap(mem)
	}
}

// loan takes a message whose last bytes are lent: as a loan, or, if the program takes
// none, by a copy.
func (r *receiver) loan(e *ring.Entry) error {
	recv := &r.c.qp.Receives
	recv.Lock()
	defer recv.Unlock()
	if e.Flags&ring.FlagFirst == 0 {
		return protocolError()
	}
	l := r.c.borrow(e.Token, e.Addr, uint64(e.Total-e.Length))
	if l == nil {
		return &violation{status: rdma.StatusAccessViolation, err: errNoRegion}
	}
	result := rdma.Result{Bytes: int(e.Total), Solicited: e.Flags&ring.FlagSolicited != 0}
	if r.c.qp.Config.AcceptByReference {
		result.RemoteData = l
	}
	err := r.beginLocked(recv)
	if err == nil {
		err = r.fillLoan(recv.CurrentLocked(), e, l, result.RemoteData == nil)
	}
	if err != nil || result.RemoteData == nil {
		l.Release()
	}
	if err != nil {
		return err
	}
	recv.FinishLocked(&result)
	r.results = true
	return nil
}

// fillLoan puts the payload into a receive, and what is lent behind it if that is to be
// copied.
func (r *receiver) fillLoan(p *softrdma.Receive, e *ring.Entry, l *loan, all bool) error {
	if int(e.Total) > p.Length {
		return &violation{status: rdma.StatusBufferOverflow, receive: rdma.StatusBufferOverflow, err: errTooLong}
	}
	a, b := r.in.Payload(e)
	ok := r.scatter(p.Pieces, 0, a) && r.scatter(p.Pieces, len(a), b)
	if ok && all {
		if err := l.View(func(lent []byte) error {
			ok = r.scatter(p.Pieces, int(e.Length), lent)
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
