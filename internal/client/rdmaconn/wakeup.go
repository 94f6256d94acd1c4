package rdmaconn

import (
	"lwio/internal/client/base"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
)

// deviceBusy answers an INTERRUPT while another one waits.
const deviceBusy = uint32(ntstatus.DeviceBusy)

// arm asks the server for a wake-up by INTERRUPT. It does nothing while no polled request is
// outstanding, or while an INTERRUPT is outstanding. A poller that is about to sleep calls arm, and
// looks once more after true.
//
// A goroutine that has taken the entry for INTERRUPT may find that nothing is in flight. Another
// goroutine may post a polled request before the entry is returned, and finds the entry in use. So
// the first goroutine looks again after it has returned the entry.
//
// Source: [LWIO §Wakeup], [LWIO claim 21], [OP-93a], [OP-93b], [OP-93c], [OP-93f]
func (k *credits) arm() bool {
	for !k.status.polled.empty() {
		s := k.takeWakeUp()
		if s == nil {
			return false
		}
		if k.sendWakeUp(s) {
			return true
		}
		if k.life.IsDown() || k.send.count.inFlight() == 0 {
			return false
		}
	}
	return false
}

// sendWakeUp sends INTERRUPT in the entry that takeWakeUp returned. False says that nothing was sent,
// and that the entry is returned.
func (k *credits) sendWakeUp(s *Request) bool {
	if k.send.postWakeUp(s) {
		return true
	}
	k.returnWakeUp()
	return false
}

// postWakeUp sends INTERRUPT in the entry that is kept for it. It says how many I/O requests were
// sent and not seen complete. The number is taken under mu, which orders messages: the server
// compares it with its outstanding requests, and so knows whether the client has missed a
// completion.
func (q *sendQueue) postWakeUp(s *Request) bool {
	return q.postDetached(s, kindWakeUp, func() (wire.Header, bool) {
		n := q.count.inFlight()
		return wire.NewInterrupt(int(n)), n > 0
	})
}

// ageWakeUp begins the age of an outstanding INTERRUPT at the tick now, if its credit is the only one.
// Then no request is in flight, and the completion of the last one has answered INTERRUPT. If that
// answer is lost, the client has no credit and sends nothing that could time out.
//
// Source: [OP-93a], [OP-93f], [OP-110]
func (k *credits) ageWakeUp(now int64) {
	if !k.armed.Load() {
		return // no INTERRUPT is outstanding
	}
	k.mu.Lock() // the entry stays reserved for INTERRUPT
	defer k.mu.Unlock()
	s := k.wakeUp
	switch {
	case s == nil || !s.load().isOutstanding():
	case k.grant > 1:
		s.tick.Store(untimed)
	default:
		s.tick.CompareAndSwap(untimed, now)
	}
}

// wokenUp ends an INTERRUPT. Precondition: progress.mu is held.
func (r *receiver) wokenUp(s *Request, status uint32) error {
	if status != 0 && status != deviceBusy {
		return base.ProtocolError("the server answered INTERRUPT with status %#x", status)
	}
	r.woken = true
	r.counts.Wakeups.Add(1)
	s.free()
	r.credits.returnWakeUp()
	return nil
}
