package rdmaconn

import (
	"lwio/internal/client/base"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
)

// deviceBusy answers an INTERRUPT while another one waits.
const deviceBusy = uint32(ntstatus.DeviceBusy)

// arm asks the server for a wake-up by INTERRUPT, if polled requests are outstanding and no
// INTERRUPT is. A poller that is about to sleep calls it, and looks once more after true.
//
// Source: [LWIO §Wakeup], [LWIO claim 21], [OP-93a], [OP-93b], [OP-93c], [OP-93f]
func (k *credits) arm() bool {
	if k.status.polled.empty() {
		return false
	}
	s := k.takeWakeUp()
	if s == nil {
		return false
	}
	if !k.send.postWakeUp(s) {
		k.armed.Store(false)
		return false
	}
	return true
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
