package lwio

import (
	"lwio/internal/wire"
	"lwio/rdma"
)

// arm asks the server for a wake-up, as somebody is about to sleep while polled
// requests are outstanding, unless it was asked already. After it reported true the
// caller looks once more before it sleeps.
//
// P, the number of I/O requests that were sent and not seen complete, is taken
// where messages get their order, so that the server, which compares it with what
// it has outstanding, knows whether the client has missed a completion.
//
// Source: [LWIO §Wakeup], [LWIO claim 21], [OP-93a], [OP-93b], [OP-93c], [OP-93f]
func (c *conn) arm() bool {
	if c.polled.empty() || !c.armed.CompareAndSwap(false, true) {
		return false
	}
	s := c.credits.forWakeUp()
	if s == nil || !c.postWakeUp(s) {
		c.armed.Store(false)
		return false
	}
	return true
}

// armForOthers is called by who depends on answers that it does not wait for itself:
// if somebody sleeps, it sees to it that they end the sleep.
func (c *conn) armForOthers() {
	if c.asleep.Load() {
		c.arm()
	}
}

// postWakeUp sends INTERRUPT in the slot that is kept for it.
func (c *conn) postWakeUp(s *slot) bool {
	s.kind, s.own, s.want = kindWakeUp, true, 0
	c.sendMu.Lock()
	pending := c.sent.Load() - c.seen.Load()
	if pending <= 0 || c.isDown() {
		c.sendMu.Unlock()
		return false
	}
	h := wire.NewInterrupt(int(pending))
	c.queueLocked(s, &h, &payload{}, slotAbandoned, 0)
	c.startPosting()
	return true
}

// wokenUp ends an INTERRUPT. Called with progressMu held.
func (c *conn) wokenUp(s *slot, status uint32) error {
	if status != 0 && status != deviceBusy {
		return protocolError("the server answered INTERRUPT with status %#x", status)
	}
	c.woken = true
	c.counts.wakeUps.Add(1)
	s.renew()
	c.armed.Store(false)
	c.credits.afterWakeUp(c)
	return nil
}

// statusAddr is where the status block of a slot lies for the server.
func (c *conn) statusAddr(s *slot) rdma.RemoteAddr {
	at := c.statusMR.RemoteAddr()
	at.Addr += uint64(s.index) * wire.IOStatusBlockSize
	return at
}
