package smbserver

import (
	"context"
	"errors"
	"sync"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/ratelimit"
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbwire"
)

// bodyOffset is where the body of an answer begins in its buffer.
const bodyOffset = headroom + smbwire.HeaderSize

// interimAfter is how long a pipe may take before the client is told to wait.
//
// Source: [MS-SMB2 3.3.5.15.3]
const interimAfter = time.Millisecond

// chain is what related requests of one message take over from each other.
//
// Source: [MS-SMB2 3.3.5.2.7.2]
type chain struct {
	sessionID uint64
	treeID    uint32
	file      smbwire.FileID
	haveFile  bool
	failed    ntstatus.Status // of the request that should have opened the file
}

// request is one request and the answer to it. It belongs to the goroutine
// that works on it.
type request struct {
	conn   *conn
	hdr    smbwire.Header
	msg    []byte // header, body and padding
	chain  *chain
	first  bool // of its chain
	alone  bool // in its message
	charge uint16

	session *Session
	tree    *tree
	signer  smbauth.Signer // signs the answer, if not nil
	hash    *smbauth.PreauthHash
	dropped bool // no answer: the connection is being cut
	parked  bool // a goroutine of its own answers

	// Of a LOCK: ends with CANCEL, which done makes impossible.
	stopped context.Context
	done    func()

	out     *buffer
	failure smbwire.ErrorResponse // what an error says beside its status

	mu       sync.Mutex // guards what a timer shares
	async    bool       // the client was told to wait
	answered bool
}

// inOrder reports whether the request must be worked off before the next
// message is read.
func (r *request) inOrder() bool {
	return r.hdr.Command == smbwire.CommandNegotiate || r.hdr.Command == smbwire.CommandSessionSetup
}

// in is the body of the request.
func (r *request) in() []byte { return r.msg[smbwire.HeaderSize:] }

// body begins the answer, with room for n bytes of body, and returns what to
// append them to.
func (r *request) body(n int) []byte {
	if r.out == nil {
		r.out = r.conn.srv.bufs.get(bodyOffset + n)
	}
	r.out.b = r.out.b[:bodyOffset]
	return r.out.b
}

// longBody is body for n bytes that may be many, and their part of the memory. What has
// some already, as a chain may, does not wait for more: others may wait for that.
func (r *request) longBody(n int) ([]byte, ntstatus.Status) {
	if n < longMessage {
		return r.body(n), ntstatus.Success
	}
	memory, user := r.conn.srv.memory, r.session.user
	if r.alone && len(r.msg) < longMessage {
		if memory.take(r.session.ctx, user, n) != nil {
			return nil, ntstatus.UserSessionDeleted
		}
	} else if !memory.tryTake(user, n) {
		return nil, ntstatus.InsufficientResources
	}
	b := r.body(n)
	r.out.claim(memory, user, n)
	return b, ntstatus.Success
}

// set keeps what was appended to what body returned.
func (r *request) set(b []byte) { r.out.b = b }

// drop cuts the connection instead of an answer.
func (r *request) drop(cause error) ntstatus.Status {
	r.dropped = true
	if r.out != nil {
		r.out.free()
		r.out = nil
	}
	r.conn.cut(cause)
	return ntstatus.ConnectionDisconnected
}

// serve checks who asks and does what is asked for.
//
// Source: [MS-SMB2 3.3.5.2]
func (r *request) serve() ntstatus.Status {
	related := r.hdr.Flags&smbwire.FlagRelated != 0
	if related && r.first {
		return ntstatus.InvalidParameter
	}
	if related {
		r.hdr.SessionID, r.hdr.TreeID = r.chain.sessionID, r.chain.treeID
	}
	r.chain.sessionID, r.chain.treeID = r.hdr.SessionID, r.hdr.TreeID
	if !related {
		r.chain.haveFile, r.chain.failed = false, ntstatus.Success
	}
	if st := r.identify(); st != ntstatus.Success {
		return r.note(st)
	}
	return r.note(r.dispatch())
}

// note remembers for related requests that there is no file.
func (r *request) note(st ntstatus.Status) ntstatus.Status {
	if st.Failed() && !r.chain.haveFile && r.chain.failed == ntstatus.Success {
		r.chain.failed = st
	}
	return st
}

// identify finds session and tree connect, and checks the signature.
//
// Source: [MS-SMB2 3.3.5.2.4], [MS-SMB2 3.3.5.2.9], [MS-SMB2 3.3.5.2.11]
func (r *request) identify() ntstatus.Status {
	cmd := r.hdr.Command
	if cmd == smbwire.CommandNegotiate {
		return ntstatus.Success
	}
	r.session = r.conn.session(r.hdr.SessionID)
	if r.session == nil || !r.session.valid() {
		if cmd == smbwire.CommandSessionSetup || cmd == smbwire.CommandEcho && r.hdr.SessionID == 0 {
			return ntstatus.Success
		}
		return ntstatus.UserSessionDeleted
	}
	switch {
	case r.hdr.Flags&smbwire.FlagSigned != 0:
		r.signer = r.session.signer
		if !r.signer.Verify(r.msg) {
			r.conn.srv.stats.badSignatures.Add(1)
			r.conn.srv.noise.Warn(r.conn.log, "smb: wrong signature", "user", r.session.user, "command", cmd.String())
			return ntstatus.AccessDenied
		}
	case !r.conn.srv.cfg.AllowUnsigned:
		r.signer = r.session.signer
		return ntstatus.AccessDenied
	}
	if st := r.slow(1, 0); st != ntstatus.Success {
		return st
	}
	if !needsTree(cmd) {
		return ntstatus.Success
	}
	if r.tree = r.session.tree(r.hdr.TreeID); r.tree == nil {
		return ntstatus.NetworkNameDeleted
	}
	return ntstatus.Success
}

// slow holds the request back while its user's come too fast, or move too much.
func (r *request) slow(turns, bytes int) ntstatus.Status {
	wait := r.session.pace.Take(turns, bytes)
	if wait == 0 {
		return ntstatus.Success
	}
	r.conn.srv.stats.slowed.Add(1)
	if ratelimit.Sleep(r.session.ctx, wait) != nil {
		return ntstatus.UserSessionDeleted
	}
	return ntstatus.Success
}

// needsTree reports whether a command works within a tree connect.
func needsTree(cmd smbwire.Command) bool {
	switch cmd {
	case smbwire.CommandSessionSetup, smbwire.CommandLogoff, smbwire.CommandTreeConnect, smbwire.CommandEcho:
		return false
	}
	return true
}

// dispatch calls what the command stands for.
//
// Source: [MS-SMB2 2.2.1.2], [MS-SMB2 3.3.5.2.6]
func (r *request) dispatch() ntstatus.Status {
	switch r.hdr.Command {
	case smbwire.CommandNegotiate:
		return r.negotiate()
	case smbwire.CommandSessionSetup:
		return r.sessionSetup()
	case smbwire.CommandLogoff:
		return r.logoff()
	case smbwire.CommandTreeConnect:
		return r.treeConnect()
	case smbwire.CommandTreeDisconnect:
		return r.treeDisconnect()
	case smbwire.CommandCreate:
		return r.create()
	case smbwire.CommandClose:
		return r.close()
	case smbwire.CommandFlush:
		return r.flush()
	case smbwire.CommandRead:
		return r.read()
	case smbwire.CommandWrite:
		return r.write()
	case smbwire.CommandIoctl:
		return r.ioctl()
	case smbwire.CommandEcho:
		return r.echo()
	case smbwire.CommandQueryDirectory:
		return r.queryDirectory()
	case smbwire.CommandQueryInfo:
		return r.queryInfo()
	case smbwire.CommandSetInfo:
		return r.setInfo()
	case smbwire.CommandLock:
		return r.lock()
	case smbwire.CommandChangeNotify, smbwire.CommandOplockBreak:
		return r.unsupported()
	}
	return ntstatus.InvalidParameter
}

// open finds the open that a request names, or says why there is none.
//
// Source: [MS-SMB2 3.3.5.2.7.2], [MS-SMB2 3.3.5.10]
func (r *request) open(id smbwire.FileID) (*open, ntstatus.Status) {
	if id == smbwire.RelatedFileID && r.hdr.Flags&smbwire.FlagRelated != 0 {
		switch {
		case r.chain.haveFile:
			id = r.chain.file
		case r.chain.failed != ntstatus.Success:
			return nil, r.chain.failed
		default:
			return nil, ntstatus.InvalidParameter
		}
	}
	o := r.session.open(id.Volatile)
	if o == nil || id.Persistent != o.id || o.tree != r.tree {
		return nil, ntstatus.FileClosed
	}
	r.chain.file, r.chain.haveFile = id, true
	return o, ntstatus.Success
}

// paid reports whether the credit charge covers the larger of the two payloads,
// in bytes.
//
// Source: [MS-SMB2 3.3.5.2.5]
func (r *request) paid(sent, expected uint32) bool {
	return uint64(max(sent, expected)) <= uint64(r.charge)*creditUnit
}

// carriesBody reports whether an answer with that status has the body of its
// command rather than that of an error.
//
// Source: [MS-SMB2 3.3.4.4]
func carriesBody(st ntstatus.Status) bool {
	return !st.Failed() || st == ntstatus.BufferOverflow || st == ntstatus.MoreProcessingRequired
}

// finish completes the answer: header, credits, padding and signature.
//
// Source: [MS-SMB2 3.3.4.1]
func (r *request) finish(st ntstatus.Status, more bool) {
	r.mu.Lock()
	r.answered = true
	async := r.async
	r.mu.Unlock()
	if r.out == nil || len(r.out.b) == bodyOffset || !carriesBody(st) {
		r.set(r.failure.AppendTo(r.body(64)))
		if !st.Failed() {
			st = ntstatus.InternalError
		}
	}
	h := r.head(st)
	if async {
		h.Flags |= smbwire.FlagAsync
		h.AsyncID, h.Credits = h.MessageID, 0
	} else {
		h.Credits = r.conn.credits.grant(r.charge, r.hdr.Credits)
	}
	if more {
		r.out.b = smbwire.Chain(r.out.b, headroom)
		h.NextCommand = uint32(len(r.out.b) - headroom)
	}
	r.seal(&h, r.out)
}

// size bounds the length of the answer, padding included.
func (r *request) size() int {
	const least = bodyOffset + 128
	if r.out == nil {
		return least
	}
	return max(least, len(r.out.b)+8)
}

// head is the header of an answer.
func (r *request) head(st ntstatus.Status) smbwire.Header {
	return smbwire.Header{
		CreditCharge: r.hdr.CreditCharge, Status: st, Command: r.hdr.Command,
		Flags:     smbwire.FlagResponse | r.hdr.Flags&(smbwire.FlagRelated|smbwire.FlagPriorityMask),
		MessageID: r.hdr.MessageID, ProcessID: r.hdr.ProcessID, TreeID: r.hdr.TreeID, SessionID: r.hdr.SessionID,
	}
}

// seal writes the header into the buffer and signs.
func (r *request) seal(h *smbwire.Header, out *buffer) {
	msg := out.b[headroom:]
	if r.signer != nil {
		h.Flags |= smbwire.FlagSigned
	}
	h.Put(msg)
	if r.signer != nil {
		r.signer.Sign(msg)
	}
	if r.hash != nil {
		r.hash.Update(msg)
	}
}

// pending tells the client to wait, and sends the answer by itself later. It
// does nothing for a request in a chain. An interim answer is not signed: with
// GMAC it would share its nonce with the real one.
//
// Source: [MS-SMB2 3.3.4.2], [MS-SMB2 3.3.4.1.1]
func (r *request) pending() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answered || !r.alone {
		return
	}
	r.async = true
	out := r.conn.srv.bufs.get(bodyOffset)
	out.b = r.failure.AppendTo(out.b)
	h := r.head(ntstatus.Pending)
	h.Flags |= smbwire.FlagAsync
	h.AsyncID = h.MessageID
	h.Credits = r.conn.credits.grant(r.charge, r.hdr.Credits)
	h.Put(out.b[headroom:])
	r.conn.write(out)
}

// waiting runs f, which may take its time, and tells the client to wait if it
// does. The context ends with CANCEL.
func (r *request) waiting(f func(ctx context.Context) ntstatus.Status) ntstatus.Status {
	ctx, done := r.conn.cancelable(r.session.ctx, r.hdr.MessageID)
	defer done()
	defer time.AfterFunc(interimAfter, r.pending).Stop()
	return f(ctx)
}

// statusOf is the status for an error of a layer below.
func statusOf(err error) ntstatus.Status {
	var st ntstatus.Status
	if errors.As(err, &st) {
		return st
	}
	return ntstatus.Of(err)
}
