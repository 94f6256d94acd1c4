package smbserver

import (
	"lwio/internal/account"
	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbbuf"
)

// heldShare is the part of Config.Memory that requests without a limit of time, and watches, may hold:
// a quarter. The rest is for requests that end.
const heldShare = 4

// heldMemory is memory that is held without a limit of time. The zero value is none.
type heldMemory struct {
	charge account.Charge
	sum    *account.Sum
	user   string
	n      int64 // of sum
}

// hold charges a user for n bytes that are held without a limit of time. more bytes count too; the
// caller has charged them. ok is false if they are not available.
func (c *conn) hold(user string, n, more int64) (m heldMemory, ok bool) {
	m = heldMemory{sum: c.srv.held, user: user, n: n + more}
	if !m.sum.Take(user, m.n, account.Last) {
		return heldMemory{}, false
	}
	if m.charge, ok = c.memory.TryCharge(user, n, account.Last); !ok {
		m.sum.Give(user, m.n, account.Last)
		return heldMemory{}, false
	}
	return m, true
}

// give returns the memory.
func (m *heldMemory) give() {
	if m.sum != nil {
		m.charge.Return()
		m.sum.Give(m.user, m.n, account.Last)
		*m = heldMemory{}
	}
}

// hold charges the user for a parked goroutine and for a response with n bytes of body. ok is false if
// the memory is not available.
func (r *request) hold(n int) (m heldMemory, ok bool) {
	p, size := &r.resp, int64(smbbuf.Size(bufferSize(n)))
	if p.memory.Bytes() < size {
		p.memory.Return()
		if p.memory, ok = r.conn.memory.TryCharge(p.user, size, account.Last); !ok {
			return heldMemory{}, false
		}
	}
	return r.conn.hold(r.session.user, goroutineMemory, p.memory.Bytes())
}

// park sends the responses to the earlier requests of the message. Then a goroutine of its own sends an
// interim response, calls wait, and sends the response, whose body wait makes. The goroutine gives
// memory back. park reports false if too many requests are parked; memory is given back then too.
//
// Precondition: the request is the last of its message, and has a waitCtx.
//
// Source: [MS-SMB2 3.3.4.2]
func (r *request) park(memory heldMemory, wait func() ntstatus.Status) bool {
	r.answers.flush()
	r.msg, r.answers = nil, nil // their memory is freed with the message
	r.single = true
	r.parked = r.conn.workers.park(func() {
		defer memory.give()
		defer r.waitDone()
		r.interim()
		st := wait()
		r.tracker.end()
		if st == ntstatus.Cancelled && r.conn.waits.Err() != nil && r.conn.notifies() {
			r.resp.discard() // the client sends the request again, to the next server
			return
		}
		r.resp.finish(st, false)
		r.conn.write(r.encrypted, r.resp.out)
	})
	if !r.parked {
		memory.give()
	}
	return r.parked
}
