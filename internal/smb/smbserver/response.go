package smbserver

import (
	"sync"

	"lwio/internal/account"
	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbbuf"
	"lwio/internal/smb/smbwire"
)

// bodyOffset is where the body of a response begins in its buffer.
const bodyOffset = headroom + smbwire.HeaderSize

// response is the response to one request: its memory, credits and signature. It belongs
// to the goroutine that serves the request, except for sendInterim.
type response struct {
	conn   *conn
	hdr    *smbwire.Header // of the request
	charge uint16

	user   string         // charged for the memory
	memory account.Charge // reserved for out, until begin

	signer smbauth.Signer       // signs the response, if not nil; nil if it is encrypted
	hash   *smbauth.PreauthHash // includes the response, if not nil

	out     *smbbuf.Buffer
	failure smbwire.ErrorResponse // the body of an error
	whole   bool                  // an error has the body of the command

	mu       sync.Mutex // guards the fields that a timer shares
	async    bool       // an interim response was sent
	finished bool
}

// bufferSize returns the length of the buffer of a response with n bytes of body. The buffer has
// room for the padding of a compound, and for the tag of an encrypted message.
func bufferSize(n int) int { return bodyOffset + n + 8 + smbauth.TagSize }

// begin starts a body with room for n bytes and returns the slice to append it to. The
// caller passes the result to set. It takes the reserved memory; the memory of a longer
// response is charged even above the limits.
func (p *response) begin(n int) []byte {
	if p.out == nil {
		n = bufferSize(n)
		if p.memory.Bytes() < int64(smbbuf.Size(n)) {
			p.memory.Return()
			p.out = p.conn.buffer(n, p.user)
		} else {
			p.out = p.conn.srv.bufs.Get(n)
			p.out.Charge, p.memory = p.memory, account.Charge{}
		}
	}
	p.out.B = p.out.B[:bodyOffset]
	return p.out.B
}

// set keeps the body that was appended to the result of begin.
func (p *response) set(b []byte) { p.out.B = b }

// empty makes the body of a response that has no content.
func (p *response) empty() ntstatus.Status {
	p.set(smbwire.Empty{}.AppendTo(p.begin(4)))
	return ntstatus.Success
}

// discard frees the memory of a response that is not sent.
func (p *response) discard() {
	p.memory.Return()
	if p.out != nil {
		p.out.Free()
		p.out = nil
	}
}

// carriesBody reports whether the response with that status has the body of its command, and
// not the body of an error.
//
// Source: [MS-SMB2 3.3.4.4]
func (p *response) carriesBody(st ntstatus.Status) bool {
	return p.whole || !st.Failed() || st == ntstatus.BufferOverflow || st == ntstatus.MoreProcessingRequired
}

// finish completes the response: header, credits, padding and signature. more says that
// another response of the same message follows.
//
// Source: [MS-SMB2 3.3.4.1]
func (p *response) finish(st ntstatus.Status, more bool) {
	p.mu.Lock()
	p.finished = true
	async := p.async
	p.mu.Unlock()
	if p.out == nil || len(p.out.B) == bodyOffset || !p.carriesBody(st) {
		p.set(p.failure.AppendTo(p.begin(64)))
		if !st.Failed() {
			st = ntstatus.InternalError
		}
	}
	h := p.header(st)
	if async {
		h.Flags |= smbwire.FlagAsync
		h.AsyncID, h.Credits = h.MessageID, 0
	} else {
		h.Credits = p.conn.credits.grant(p.charge, p.hdr.Credits)
	}
	if more {
		p.out.B = smbwire.EndElement(p.out.B, headroom)
		h.NextCommand = uint32(len(p.out.B) - headroom)
	}
	p.seal(&h)
}

// size returns a bound of the length of the finished response, padding included.
func (p *response) size() int {
	const least = bodyOffset + 128
	if p.out == nil {
		return least
	}
	return max(least, len(p.out.B)+8)
}

// header returns the header of a response.
func (p *response) header(st ntstatus.Status) smbwire.Header {
	q := p.hdr
	return smbwire.Header{
		CreditCharge: q.CreditCharge, Status: st, Command: q.Command,
		Flags:     smbwire.FlagResponse | q.Flags&(smbwire.FlagRelated|smbwire.FlagPriorityMask),
		MessageID: q.MessageID, ProcessID: q.ProcessID, TreeID: q.TreeID, SessionID: q.SessionID,
	}
}

// seal writes the header into the buffer and signs the message. Without a key, the response
// to a signed request repeats the signature of the request, as other servers do. The
// signature proves nothing. Clients that require signatures see the status only with it, for
// example that the session has ended.
func (p *response) seal(h *smbwire.Header) {
	msg := p.out.B[headroom:]
	switch {
	case p.signer != nil:
		h.Flags |= smbwire.FlagSigned
	case p.hdr.Flags&smbwire.FlagSigned != 0:
		h.Flags |= smbwire.FlagSigned
		h.Signature = p.hdr.Signature
	}
	h.Put(msg)
	if p.signer != nil {
		p.signer.Sign(msg)
	}
	if p.hash != nil {
		p.hash.Update(msg)
	}
}

// sendInterim sends an interim response by write, unless there was one, the response is finished, or there is no
// memory for it. An interim response is not signed: with GMAC it would share its nonce
// with the final one.
//
// Source: [MS-SMB2 3.3.4.2], [MS-SMB2 3.3.4.1.1]
func (p *response) sendInterim(write func(*smbbuf.Buffer)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.finished || p.async {
		return
	}
	n := bufferSize(smallBody)
	charge, ok := p.conn.memory.TryCharge(p.user, int64(smbbuf.Size(n)), account.Last)
	if !ok {
		return
	}
	p.async = true
	out := p.conn.srv.bufs.Get(n)
	out.Charge = charge
	out.B = out.B[:bodyOffset]
	out.B = p.failure.AppendTo(out.B)
	h := p.header(ntstatus.Pending)
	h.Flags |= smbwire.FlagAsync
	h.AsyncID = h.MessageID
	h.Credits = p.conn.credits.grant(p.charge, p.hdr.Credits)
	h.Put(out.B[headroom:])
	write(out)
}
