package rdmaconn

import (
	"sync"
	"sync/atomic"

	"lwio/internal/client/base"
	"lwio/internal/wire"
	"lwio/rdma"
)

// credits keeps the grant of the server. A credit is an entry that is among the free requests or
// in use. The server may grant more credits, up to the number asked for at first, or take some
// back, with one CREDIT message for each. Safe for concurrent use.
//
// Source: [LWIO §Credits], [OP-64] to [OP-74c], [LWIO claim 24]
type credits struct {
	table    *requestTable
	receives *receiveQueue
	send     *sendQueue
	status   *statusBlocks
	life     *lifecycle

	work  atomic.Bool // CREDIT or CANCEL messages wait for an entry
	armed atomic.Bool // an INTERRUPT is outstanding, or its entry is given up

	mu       sync.Mutex // guards the following fields
	grant    int        // messages that may be in flight
	idle     []*Request // entries that are not granted
	left     int        // CREDIT messages of the transaction that are still to be sent
	kind     requestKind
	unused   int32        // the number that the CREDIT of a growth reports
	retiring int          // credits that the server took back and that are not retired yet
	cancels  []cancelWish // CANCEL messages that wait for an entry
	// wakeUp is the credit that is kept for INTERRUPT, if there are two or more and requests are
	// polled. [OP-93f]
	wakeUp *Request
	open   bool                 // the first grant is known
	early  *wire.StatusResponse // a change of the grant that came before
}

// init grants one message, for AUTH, and posts the receives for as many as will be asked for.
func (k *credits) init() error {
	entries := k.table.entries
	for i := range entries[1:] {
		k.idle = append(k.idle, &entries[len(entries)-1-i])
	}
	k.grant = 1
	k.table.free.put(&entries[0])
	return k.receives.fill(len(entries) + 1)
}

// release frees a request and gives its credit back.
func (k *credits) release(s *Request) {
	s.free()
	if k.work.Load() && k.use(s) {
		return
	}
	k.table.free.put(s)
	k.pumpIfNeeded()
}

// putBack gives back credits that were taken and not used.
func (k *credits) putBack(some someRequests) {
	k.table.free.putBack(some)
	k.pumpIfNeeded()
}

// pumpIfNeeded sends the CREDIT and CANCEL messages that found no free entry before.
func (k *credits) pumpIfNeeded() {
	if k.work.Load() {
		k.pump()
	}
}

// granted sets the first grant, after AUTH.
func (k *credits) granted(n int) error {
	k.mu.Lock()
	k.addLocked(n - k.grant)
	k.open = true
	early := k.early
	k.mu.Unlock()
	if early == nil {
		return nil
	}
	return k.delta(*early)
}

// addLocked grants n more.
func (k *credits) addLocked(n int) {
	k.grant += n
	for range n {
		s := k.idle[len(k.idle)-1]
		k.idle = k.idle[:len(k.idle)-1]
		if k.wakeUp == nil && k.grant > 1 && k.status.possible() {
			k.wakeUp = s
			k.status.enabled.Store(true)
			continue
		}
		k.table.free.put(s)
	}
}

// takeWakeUp returns the entry for INTERRUPT, or nil if there is none or it is in use.
// returnWakeUp must follow.
func (k *credits) takeWakeUp() *Request {
	if !k.armed.CompareAndSwap(false, true) {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.wakeUp == nil {
		k.armed.Store(false) // before another goroutine grants the entry
	}
	return k.wakeUp
}

// returnWakeUp ends the use of the entry for INTERRUPT.
func (k *credits) returnWakeUp() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.armed.Store(false)
	k.giveUpWakeUpLocked()
}

// giveUpWakeUpLocked makes the credit for INTERRUPT an ordinary one if it is the last credit.
// Then requests are not polled any more. An entry that is in use stays until returnWakeUp.
//
// Source: [OP-93f]
func (k *credits) giveUpWakeUpLocked() {
	if k.grant > 1 || k.wakeUp == nil {
		return
	}
	k.status.enabled.Store(false)
	if k.armed.CompareAndSwap(false, true) {
		k.table.free.put(k.wakeUp)
		k.wakeUp = nil
		k.armed.Store(false)
	}
}

// current returns the grant.
func (k *credits) current() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.grant
}

// retires reports whether the message with this cookie retires a credit: then its receive is
// not posted again. [OP-67]
func (k *credits) retires(cookie uint64) bool {
	s := k.table.ofCookie(cookie)
	return s != nil && s.load().state() == requestAbandoned && s.cookie() == cookie && s.kind == kindRetire
}

// delta begins the client's part of a credit transaction. The goroutine that takes completions
// calls it. The server may begin a transaction as soon as it has answered AUTH; it waits until
// that answer was inspected.
//
// Source: [OP-69] to [OP-73]
func (k *credits) delta(a wire.StatusResponse) error {
	n := int(int32(a.Information))
	if a.Status != wire.NotifyCredit {
		return base.ProtocolError("the server sent cookie 0 with status %#x", a.Status)
	}
	k.mu.Lock()
	if !k.open && k.early == nil {
		k.early = &a
		k.mu.Unlock()
		return nil
	}
	err := k.beginLocked(n)
	k.mu.Unlock()
	if err != nil {
		return err
	}
	k.pump()
	return nil
}

// beginLocked begins a transaction that changes the grant by n.
func (k *credits) beginLocked(n int) error {
	switch {
	case !k.open || k.left > 0:
		return base.ProtocolError("a change of credits before the last one is over")
	case n < 0 && -n >= k.grant-k.retiring:
		return base.ProtocolError("the server takes back %d credits of %d", -n, k.grant-k.retiring)
	case n < 0:
		k.kind, k.left, k.retiring = kindRetire, -n, k.retiring-n
	default:
		used := min(n, len(k.idle))
		if err := k.receives.fill(k.grant + used + 1); err != nil {
			return err
		}
		k.kind, k.left, k.unused = kindGrow, 1, int32(n-used)
		k.addLocked(used)
	}
	k.work.Store(true)
	return nil
}

// pump sends the CREDIT and CANCEL messages for which there are free entries.
func (k *credits) pump() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.waitsLocked() {
		s := k.table.free.take()
		if s == nil {
			return
		}
		if !k.sendLocked(s) {
			k.table.free.put(s)
		}
	}
}

// use sends a CREDIT or CANCEL message in entry s, which was just freed: they come before new
// requests. False says that no message waits. [OP-68]
func (k *credits) use(s *Request) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.waitsLocked() {
		if k.sendLocked(s) {
			return true
		}
	}
	return false
}

// waitsLocked reports whether messages wait for an entry.
func (k *credits) waitsLocked() bool {
	waits := k.left > 0 || len(k.cancels) > 0
	k.work.Store(waits)
	return waits
}

// sendLocked sends the next message that waits, CREDIT first. False says that it was a CANCEL
// with nothing left to cancel, or that the connection is down.
func (k *credits) sendLocked(s *Request) bool {
	if k.left == 0 {
		w := k.cancels[0]
		k.cancels = k.cancels[1:]
		return k.send.postCancel(s, w)
	}
	n := k.unused
	if k.kind == kindRetire {
		n = -int32(k.left)
	}
	k.left--
	return k.send.postDetached(s, k.kind, func() (wire.Header, bool) { return wire.NewCredit(n), true })
}

// answered ends a CREDIT message. The goroutine that takes completions calls it.
func (k *credits) answered(s *Request, ios wire.IOStatusBlock) error {
	if s.kind == kindGrow {
		if ios.Status != 0 {
			return base.ProtocolError("the server answered a CREDIT message with status %#x", ios.Status)
		}
		k.release(s)
		return nil
	}
	if ios.Status != wire.NotifyCredit {
		return base.ProtocolError("the server answered a CREDIT message that gives up a credit with status %#x", ios.Status)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s.free()
	k.idle = append(k.idle, s)
	k.grant--
	k.retiring--
	k.giveUpWakeUpLocked()
	return nil
}

// receiveQueue has the places of the status messages that the server may send. Safe for
// concurrent use.
type receiveQueue struct {
	qp   rdma.QueuePair
	mr   *rdma.MemoryRegion // of the places
	size int                // bytes of a place

	mu     sync.Mutex // guards the following fields
	posted int        // receives in the queue or being handled
	spare  []uint64   // places that are not posted
}

func (r *receiveQueue) init(places int) {
	for id := range uint64(places) {
		r.spare = append(r.spare, id)
	}
}

// fill makes the number of receives at least want, if there are places.
func (r *receiveQueue) fill(want int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.posted < want && len(r.spare) > 0 {
		id := r.spare[len(r.spare)-1]
		sge := [1]rdma.SGE{r.sge(id)}
		if _, err := r.qp.PostReceive([]rdma.ReceiveRequest{{ID: id, SGL: sge[:]}}); err != nil {
			return err
		}
		r.spare = r.spare[:len(r.spare)-1]
		r.posted++
	}
	return nil
}

// retire takes the place of a receive that completed out of use.
func (r *receiveQueue) retire(id uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.posted--
	r.spare = append(r.spare, id)
}

// sge is the memory of a place.
func (r *receiveQueue) sge(id uint64) rdma.SGE {
	return rdma.SGE{Region: *r.mr, Offset: int(id) * r.size, Length: r.size}
}
