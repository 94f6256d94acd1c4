package rdmaconn

import (
	"sync"
	"sync/atomic"

	"lwio/internal/client/base"
	"lwio/internal/wire"
	"lwio/rdma"
)

// credits keeps the grants of the server: a credit is an entry that is
// in the table of free entries or in use. The server may grant more, up to the number asked for at
// first, or take some back, one CREDIT message for each.
//
// Source: [LWIO §Credits], [OP-64] to [OP-74c], [LWIO claim 24]
type credits struct {
	// work says that CREDIT messages wait for an entry.
	work atomic.Bool

	Mu sync.Mutex
	// grant is the number of messages that may be in flight.
	grant int
	// idle are the entries that are not granted.
	idle []*Request
	// posted is the number of receives in the queue or being handled; spare are
	// the places of those that were retired.
	posted int
	spare  []uint64
	// left is how many CREDIT messages of the transaction are still to be sent,
	// unused the number that the CREDIT of a growth reports.
	left   int
	kind   requestKind
	unused int32
	// retiring is how many credits were asked back and not retired yet.
	retiring int
	// cancels are the CANCEL messages that wait for an entry.
	cancels []cancelWish
	// wakeUp is the credit that is kept for INTERRUPT, if there are two or more and
	// requests are polled for. [OP-93f]
	wakeUp *Request
	// open says that the first grant is known; early is a change of it that came
	// before.
	open  bool
	early *wire.StatusResponse
}

// init grants one message, for AUTH, and posts the receives for as many as will be
// asked for.
func (k *credits) init(c *Conn, n int) error {
	for i := range c.Table.Entries[1:] {
		k.idle = append(k.idle, &c.Table.Entries[len(c.Table.Entries)-1-i])
	}
	k.grant = 1
	c.Table.Free.put(&c.Table.Entries[0])
	for id := range uint64(n + 1) {
		k.spare = append(k.spare, id)
	}
	return k.postReceives(c, n+1)
}

// postReceives makes the number of receives at least want, as far as there are
// places. The caller holds mu, or the reader does not run yet.
func (k *credits) postReceives(c *Conn, want int) error {
	for k.posted < want && len(k.spare) > 0 {
		id := k.spare[len(k.spare)-1]
		sge := [1]rdma.SGE{c.Memory.receiveSGE(id)}
		if _, err := c.qp.PostReceive([]rdma.ReceiveRequest{{ID: id, SGL: sge[:]}}); err != nil {
			return err
		}
		k.spare = k.spare[:len(k.spare)-1]
		k.posted++
	}
	return nil
}

// granted sets the first grant, after AUTH.
func (k *credits) granted(c *Conn, n int) error {
	k.Mu.Lock()
	k.add(c, n-k.grant)
	k.open = true
	early := k.early
	k.Mu.Unlock()
	if early == nil {
		return nil
	}
	return k.delta(c, *early)
}

// add grants n more.
func (k *credits) add(c *Conn, n int) {
	k.grant += n
	for range n {
		s := k.idle[len(k.idle)-1]
		k.idle = k.idle[:len(k.idle)-1]
		if k.wakeUp == nil && k.grant > 1 && c.mayPoll() {
			k.wakeUp = s
			c.Status.polling.Store(true)
			continue
		}
		c.Table.Free.put(s)
	}
}

// forWakeUp returns the entry for INTERRUPT, or nil.
func (k *credits) forWakeUp() *Request {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	return k.wakeUp
}

// keepLocked gives up the credit for INTERRUPT when it is the last one, unless it is
// in use: then requests are not polled for any more, and it is given up when the
// answer comes.
//
// Source: [OP-93f]
func (k *credits) keepLocked(c *Conn) {
	if k.grant > 1 || k.wakeUp == nil {
		return
	}
	c.Status.polling.Store(false)
	if c.Status.armed.CompareAndSwap(false, true) {
		// It is not in use, and will not be.
		c.Table.Free.put(k.wakeUp)
		k.wakeUp = nil
		c.Status.armed.Store(false)
	}
}

// afterWakeUp is called when the entry for INTERRUPT has become free.
func (k *credits) afterWakeUp(c *Conn) {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	k.keepLocked(c)
}

// Current returns the grant.
func (k *credits) Current() int {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	return k.grant
}

// keeps reports whether the receive of an answer stays unposted, which is so for
// the answer that retires a credit; id is its place. [OP-67]
func (k *credits) keeps(c *Conn, cookie, id uint64) bool {
	i := int(cookie&IndexMask) - 1
	if i < 0 || i >= len(c.Table.Entries) {
		return false
	}
	s := &c.Table.Entries[i]
	if s.State() != RequestAbandoned || s.cookie() != cookie || s.Kind != kindRetire {
		return false
	}
	k.Mu.Lock()
	defer k.Mu.Unlock()
	k.posted--
	k.spare = append(k.spare, id)
	return true
}

// delta begins the client's part of a credit transaction. Called by the reader. The
// server may begin one as soon as it has answered AUTH; it waits until the answer was
// looked at.
//
// Source: [OP-69] to [OP-73]
func (k *credits) delta(c *Conn, a wire.StatusResponse) error {
	n := int(int32(a.Information))
	if a.Status != wire.NotifyCredit {
		return base.ProtocolError("the server sent cookie 0 with status %#x", a.Status)
	}
	k.Mu.Lock()
	if !k.open && k.early == nil {
		k.early = &a
		k.Mu.Unlock()
		return nil
	}
	if !k.open || k.left > 0 {
		k.Mu.Unlock()
		return base.ProtocolError("a change of credits before the last one is over")
	}
	if n >= 0 {
		used := min(n, len(k.idle))
		if err := k.postReceives(c, k.grant+used+1); err != nil {
			k.Mu.Unlock()
			return err
		}
		k.kind, k.left, k.unused = kindGrow, 1, int32(n-used)
		k.add(c, used)
	} else {
		if -n >= k.grant-k.retiring {
			k.Mu.Unlock()
			return base.ProtocolError("the server takes back %d credits of %d", -n, k.grant-k.retiring)
		}
		k.kind, k.left, k.retiring = kindRetire, -n, k.retiring-n
	}
	k.work.Store(true)
	k.Mu.Unlock()
	k.pump(c)
	return nil
}

// pump sends the CREDIT and CANCEL messages for which there are free entries.
func (k *credits) pump(c *Conn) {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	for k.waitsLocked() {
		s := c.Table.Free.take()
		if s == nil {
			return
		}
		if !k.sendLocked(c, s) {
			c.Table.Free.put(s)
		}
	}
}

// use comes before new requests [OP-68]: it sends one of the CREDIT and CANCEL messages
// that wait for an entry in entry s, which was just released, or reports that there is
// none.
func (k *credits) use(c *Conn, s *Request) bool {
	k.Mu.Lock()
	defer k.Mu.Unlock()
	for k.waitsLocked() {
		if k.sendLocked(c, s) {
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

// sendLocked sends a message that waits, CREDIT first, or finds that a CANCEL is not
// worth one any more.
func (k *credits) sendLocked(c *Conn, s *Request) bool {
	if k.left == 0 {
		w := k.cancels[0]
		k.cancels = k.cancels[1:]
		return c.postCancel(s, w)
	}
	n := k.unused
	if k.kind == kindRetire {
		n = -int32(k.left)
	}
	k.left--
	s.Kind, s.Own = k.kind, false
	// A failure to post has ended the connection.
	h := wire.NewCredit(n)
	_ = c.postDetached(s, &h)
	return true
}

// answered ends a CREDIT message. Called by the reader.
func (k *credits) answered(c *Conn, s *Request, ios wire.IOStatusBlock) error {
	if s.Kind == kindGrow {
		if ios.Status != 0 {
			return base.ProtocolError("the server answered a CREDIT message with status %#x", ios.Status)
		}
		c.Release(s)
		return nil
	}
	if ios.Status != wire.NotifyCredit {
		return base.ProtocolError("the server answered a CREDIT message that gives up a credit with status %#x", ios.Status)
	}
	k.Mu.Lock()
	defer k.Mu.Unlock()
	s.renew()
	k.idle = append(k.idle, s)
	k.grant--
	k.retiring--
	k.keepLocked(c)
	return nil
}
