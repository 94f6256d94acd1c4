package rdmaconn

import (
	"lwio/internal/client/base"
	"lwio/internal/wire"
	"lwio/rdma"
)

// arm asks the server for a wake-up, as the poller is about to sleep while polled
// requests are outstanding, unless it was asked already. After it reported true the
// caller looks once more before it sleeps.
//
// P, the number of I/O requests that were sent and not seen complete, is taken
// where messages get their order, so that the server, which compares it with its
// outstanding requests, knows whether the client has missed a completion.
//
// Source: [LWIO §Wakeup], [LWIO claim 21], [OP-93a], [OP-93b], [OP-93c], [OP-93f]
func (c *Conn) arm() bool {
	if c.Status.Polled.Empty() || !c.Status.armed.CompareAndSwap(false, true) {
		return false
	}
	s := c.Credits.forWakeUp()
	if s == nil || !c.postWakeUp(s) {
		c.Status.armed.Store(false)
		return false
	}
	return true
}

// ArmForOthers is called by a goroutine that depends on answers that it does not wait for itself:
// if the poller sleeps, it ensures that they end the sleep.
func (c *Conn) ArmForOthers() {
	if c.Progress.asleep.Load() {
		c.arm()
	}
}

// postWakeUp sends INTERRUPT in the entry that is kept for it.
func (c *Conn) postWakeUp(s *Request) bool {
	s.Kind, s.Own, s.Want = kindWakeUp, true, 0
	c.Queue.Mu.Lock()
	pending := c.Queue.sent.Load() - c.Seen.Load()
	if pending <= 0 || c.IsDown() {
		c.Queue.Mu.Unlock()
		return false
	}
	h := wire.NewInterrupt(int(pending))
	c.QueueLocked(s, &h, &Payload{}, RequestAbandoned, 0)
	c.StartPosting()
	return true
}

// wokenUp ends an INTERRUPT. Precondition: progress.mu is held.
func (c *Conn) wokenUp(s *Request, status uint32) error {
	if status != 0 && status != DeviceBusy {
		return base.ProtocolError("the server answered INTERRUPT with status %#x", status)
	}
	c.Progress.woken = true
	c.Counts.Wakeups.Add(1)
	s.renew()
	c.Status.armed.Store(false)
	c.Credits.afterWakeUp(c)
	return nil
}

// statusAddr is where the status block of an entry lies for the server.
func (m *messageMemory) statusAddr(s *Request) rdma.RemoteAddr {
	at := m.statusMR.RemoteAddr()
	at.Addr += uint64(s.Index) * wire.IOStatusBlockSize
	return at
}
