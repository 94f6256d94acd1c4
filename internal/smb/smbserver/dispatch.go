package smbserver

import (
	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// command serves the requests with one command code.
type command struct {
	// serve makes the body of the response and returns its status.
	serve func(*request) ntstatus.Status
	// treeless commands need no tree connect.
	treeless bool
}

// commands are the commands that the server recognises, by code.
//
// Source: [MS-SMB2 2.2.1.2]
var commands = [...]command{
	smbwire.CommandNegotiate:      {handleNegotiate, true},
	smbwire.CommandSessionSetup:   {decoded(smbwire.DecodeSessionSetupRequest, handleSessionSetup), true},
	smbwire.CommandLogoff:         {decoded(smbwire.DecodeEmpty, handleLogoff), true},
	smbwire.CommandTreeConnect:    {decoded(smbwire.DecodeTreeConnectRequest, handleTreeConnect), true},
	smbwire.CommandTreeDisconnect: {decoded(smbwire.DecodeEmpty, handleTreeDisconnect), false},
	smbwire.CommandCreate:         {decoded(smbwire.DecodeCreateRequest, handleCreate), false},
	smbwire.CommandClose:          {decoded(smbwire.DecodeCloseRequest, handleClose), false},
	smbwire.CommandFlush:          {decoded(smbwire.DecodeFlushRequest, handleFlush), false},
	smbwire.CommandRead:           {decoded(smbwire.DecodeReadRequest, handleRead), false},
	smbwire.CommandWrite:          {decoded(smbwire.DecodeWriteRequest, handleWrite), false},
	smbwire.CommandLock:           {decoded(smbwire.DecodeLockRequest, handleLock), false},
	smbwire.CommandIoctl:          {decoded(smbwire.DecodeIoctlRequest, handleIoctl), false},
	smbwire.CommandEcho:           {decoded(smbwire.DecodeEmpty, handleEcho), true},
	smbwire.CommandQueryDirectory: {decoded(smbwire.DecodeQueryDirectoryRequest, handleQueryDirectory), false},
	smbwire.CommandChangeNotify:   {decoded(smbwire.DecodeChangeNotifyRequest, handleChangeNotify), false},
	smbwire.CommandQueryInfo:      {decoded(smbwire.DecodeQueryInfoRequest, handleQueryInfo), false},
	smbwire.CommandSetInfo:        {decoded(smbwire.DecodeSetInfoRequest, handleSetInfo), false},
	smbwire.CommandOplockBreak:    {handleOplockBreak, false},
}

// decoded makes a command of a decoder and a handler of the decoded body.
func decoded[Q any](decode func([]byte) (Q, error), serve func(*request, Q) ntstatus.Status) func(*request) ntstatus.Status {
	return func(r *request) ntstatus.Status {
		q, err := decode(r.body())
		if err != nil {
			return statusOf(err)
		}
		return serve(r, q)
	}
}

// commandOf returns the command of a code. An unknown code is refused after the checks of
// authorize.
//
// Source: [MS-SMB2 3.3.5.2.6]
func commandOf(code smbwire.Command) command {
	if int(code) < len(commands) && commands[code].serve != nil {
		return commands[code]
	}
	return command{serve: func(*request) ntstatus.Status { return ntstatus.InvalidParameter }}
}

// serve authorizes a request and makes the response.
//
// Source: [MS-SMB2 3.3.5.2]
func (r *request) serve() ntstatus.Status {
	if !r.compound.enter(&r.hdr, r.first) {
		return ntstatus.InvalidParameter
	}
	cmd := commandOf(r.hdr.Command)
	st := r.authorize(cmd)
	if st == ntstatus.Success {
		st = r.compound.stops(r.hdr.Command)
	}
	if r.session != nil && r.session.valid() {
		r.resp.user = r.session.user
	}
	if !r.reserve(smallBody) {
		r.tracker.end()
		return ntstatus.ConnectionDisconnected
	}
	switch st {
	case ntstatus.Success:
		st = r.unlessEnded(cmd.serve(r))
	case ntstatus.UserSessionDeleted, ntstatus.NetworkNameDeleted:
		r.compound.lost = true
	}
	if !r.parked {
		r.tracker.end()
	}
	r.compound.note(st)
	return st
}

// unlessEnded returns the status of a served request. The end of the session removes its tree
// connects and opens, also while a request is served: then their absence means that the session has
// ended.
func (r *request) unlessEnded(st ntstatus.Status) ntstatus.Status {
	if (st == ntstatus.FileClosed || st == ntstatus.NetworkNameDeleted) && !r.session.valid() {
		return ntstatus.UserSessionDeleted
	}
	return st
}

// authorize finds session and tree connect, checks signature, encryption and the end of the
// ticket, and throttles the user.
//
// Source: [MS-SMB2 3.3.5.2.4], [MS-SMB2 3.3.5.2.9], [MS-SMB2 3.3.5.2.11]
func (r *request) authorize(cmd command) ntstatus.Status {
	code := r.hdr.Command
	if code == smbwire.CommandNegotiate {
		return ntstatus.Success
	}
	r.session = r.conn.sessions.get(r.hdr.SessionID)
	if r.session == nil || !r.session.valid() {
		if code == smbwire.CommandSessionSetup || code == smbwire.CommandEcho && r.hdr.SessionID == 0 {
			return ntstatus.Success
		}
		return ntstatus.UserSessionDeleted
	}
	if st := r.authentic(); st != ntstatus.Success {
		return st
	}
	if st := r.enter(); st != ntstatus.Success {
		return st
	}
	if r.session.expiry.passed() && !servedAfterExpiry(code) {
		return ntstatus.NetworkSessionExpired
	}
	if st := r.throttle(1, 0); st != ntstatus.Success {
		return st
	}
	if cmd.treeless {
		return ntstatus.Success
	}
	if r.tree = r.session.handles.tree(r.hdr.TreeID); r.tree == nil {
		return r.unlessEnded(ntstatus.NetworkNameDeleted)
	}
	if !r.mayUse(r.tree) {
		return ntstatus.AccessDenied
	}
	return ntstatus.Success
}

// enter counts the request as one in flight of its session, if it changes files, and notes that the
// client knows the session.
func (r *request) enter() ntstatus.Status {
	s := r.session
	if changesFiles(r.hdr.Command) {
		r.tracker.ofSession(&s.requests)
		if !s.valid() {
			return ntstatus.UserSessionDeleted
		}
	}
	if !s.used.Load() && s.used.CompareAndSwap(false, true) {
		s.lineage.known(s)
	}
	return ntstatus.Success
}

// signed reports whether a request has the signature of the session, which is valid. A wrong
// signature is counted.
//
// Source: [MS-SMB2 3.3.5.2.4]
func (s *Session) signed(h *smbwire.Header, msg []byte) bool {
	if h.Flags&smbwire.FlagSigned == 0 {
		return false
	}
	if s.signer.Verify(msg) {
		return true
	}
	srv := s.conn.srv
	srv.stats.badSignatures.Add(1)
	srv.peerLog.Warn(s.conn.log, "smb: wrong signature", "user", s.user, "command", h.Command.String())
	return false
}
