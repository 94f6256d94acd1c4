package smbserver

import (
	"errors"
	"strings"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbwire"
)

// sessionSetup takes one step of an authentication. The turn is held, so the
// steps of a connection never overlap.
//
// Source: [MS-SMB2 3.3.5.5]
func (r *request) sessionSetup() ntstatus.Status {
	q, err := smbwire.DecodeSessionSetupRequest(r.in())
	if err != nil {
		return statusOf(err)
	}
	c := r.conn
	if q.Flags&smbwire.SessionFlagBinding != 0 && c.dialect >= smbwire.Dialect300 {
		return ntstatus.RequestNotAccepted
	}
	s := r.session
	if s == nil {
		if s = c.session(r.hdr.SessionID); s == nil && r.hdr.SessionID != 0 {
			return ntstatus.UserSessionDeleted
		}
	}
	if s == nil {
		s = newSession(c)
		if !c.addSession(s) {
			s.cancel()
			return ntstatus.InsufficientResources
		}
		s.preauth = c.preauth
	}
	r.session, r.hdr.SessionID = s, s.id
	if s.acceptor == nil {
		s.logon = logon{}
		s.acceptor = smbauth.NewAcceptor(smbauth.AcceptorConfig{ServerName: c.srv.cfg.ServerName, Lookup: s.lookup})
	}
	if !s.valid() {
		s.preauth.Update(r.msg)
		r.hash = &s.preauth
	}
	out, done, err := s.acceptor.Step(q.SecurityBuffer)
	if err != nil {
		return r.authFailed(err)
	}
	st := ntstatus.MoreProcessingRequired
	if done {
		if st = r.authenticated(q.PreviousSessionID); st != ntstatus.Success {
			return st
		}
	}
	resp := smbwire.SessionSetupResponse{SecurityBuffer: out}
	r.set(resp.AppendTo(r.body(64 + len(out))))
	return st
}

// logon is an authentication under way.
type logon struct {
	user   string
	tried  bool // a password for the user was looked at
	braked bool // or was not, as there were too many wrong ones
}

// lookup finds the password that the client must know, unless too many were tried.
func (s *Session) lookup(domain, user string) (ntHash [16]byte, ok bool) {
	srv := s.conn.srv
	s.logon.user = user
	if s.logon.braked = !srv.brake.admits(s.conn.origin, user); s.logon.braked {
		return ntHash, false
	}
	s.logon.tried = true
	if srv.cfg.Lookup == nil {
		return ntHash, false
	}
	return srv.cfg.Lookup(domain, user)
}

// authFailed ends a session that did not authenticate, also one that had done
// so before. It holds the answer back, and so the next attempt: whoever guesses
// passwords is slow.
//
// Source: [MS-SMB2 3.3.5.5.3]
func (r *request) authFailed(err error) ntstatus.Status {
	var e *smbauth.Error
	domain, user := "", ""
	if errors.As(err, &e) {
		domain, user = e.Domain, e.User
	}
	srv, l := r.conn.srv, &r.session.logon
	srv.stats.authFailures.Add(1)
	if l.braked {
		srv.stats.authBraked.Add(1)
		err = errBraked
	}
	if l.tried {
		srv.brake.failed(r.conn.origin, l.user)
	}
	srv.noise.Warn(r.conn.log, "smb: authentication failed", "user", user, "domain", domain, "error", err)
	r.hash = nil
	r.session.end()
	r.conn.authFailures++
	delay := time.NewTimer(srv.cfg.FailureDelay)
	defer delay.Stop()
	select {
	case <-delay.C:
	case <-r.conn.ctx.Done():
	}
	return statusOf(err)
}

// authenticated makes the session valid, or confirms it.
//
// Source: [MS-SMB2 3.3.5.5.3]
func (r *request) authenticated(previous uint64) ntstatus.Status {
	s, a, c := r.session, r.session.acceptor, r.conn
	s.acceptor = nil
	c.srv.brake.succeeded(c.origin, s.logon.user)
	if s.valid() {
		if !sameUser(s, a.Domain(), a.User()) {
			c.srv.noise.Warn(c.log, "smb: re-authentication as another user", "user", s.user, "other", a.User())
			s.end()
			return ntstatus.AccessDenied
		}
		return ntstatus.Success
	}
	s.user, s.domain = a.User(), a.Domain()
	s.keys = smbauth.DeriveKeys(c.dialect, a.SessionKey(), s.preauth)
	s.signer = smbauth.NewSigner(c.signing, s.keys.Signing)
	s.pace = c.srv.paceOf(s.user)
	if !c.establish(s) {
		return ntstatus.UserSessionDeleted
	}
	if c.user == "" {
		c.user = s.user
	}
	r.signer, r.hash = s.signer, nil
	c.log.Info("smb: logged on", "user", s.user, "domain", s.domain, "dialect", dialectName(c.dialect), "signing", c.signing.String())
	if previous != 0 && previous != s.id {
		if old := c.srv.session(previous); old != nil && old.valid() && sameUser(old, s.domain, s.user) {
			old.end()
		}
	}
	return ntstatus.Success
}

// sameUser compares names as NTLM does: without regard to case.
func sameUser(s *Session, domain, user string) bool {
	return strings.EqualFold(s.user, user) && strings.EqualFold(s.domain, domain)
}

// logoff ends the session and its opens, and then answers.
//
// Source: [MS-SMB2 3.3.5.6], [OP-58b]
func (r *request) logoff() ntstatus.Status {
	if _, err := smbwire.DecodeEmpty(r.in()); err != nil {
		return statusOf(err)
	}
	r.session.left.Store(true)
	r.session.end()
	return r.empty()
}

// echo says that the server is there.
//
// Source: [MS-SMB2 3.3.5.17]
func (r *request) echo() ntstatus.Status {
	if _, err := smbwire.DecodeEmpty(r.in()); err != nil {
		return statusOf(err)
	}
	return r.empty()
}

// empty begins the answer that says no more than its status.
func (r *request) empty() ntstatus.Status {
	r.set(smbwire.Empty{}.AppendTo(r.body(4)))
	return ntstatus.Success
}
