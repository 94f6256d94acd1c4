package smbserver

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbwire"
)

// logon is the state of an authentication of a session.
type logon struct {
	acceptor *smbauth.Acceptor // nil while no authentication is under way
	preauth  smbauth.PreauthHash
	user     string // canonical; as spelled by the client if the user is unknown
	tried    bool   // the password of the user was compared
	limited  bool   // authLimit refused the attempt: the password was not compared
	proof    proof  // that the client has to give
}

// proof is the evidence that a client gives in a logon.
type proof struct {
	ntHash   [16]byte // of the password
	byTicket bool     // of Kerberos, in place of a password
}

// handleSessionSetup takes one step of an authentication. Precondition: the read turn is held,
// so the steps of a connection never overlap.
//
// Source: [MS-SMB2 3.3.5.5]
func handleSessionSetup(r *request, q smbwire.SessionSetupRequest) ntstatus.Status {
	c := r.conn
	if q.Flags&smbwire.SessionFlagBinding != 0 {
		return ntstatus.RequestNotAccepted
	}
	if c.srv.cfg.Encryption == EncryptionRequired && c.agreed.cipher == smbauth.NoCipher {
		return r.refuseLogon("", "", errNoCipher, false)
	}
	s, st := sessionToSetUp(r)
	if st != ntstatus.Success {
		return st
	}
	r.session, r.hdr.SessionID = s, s.id
	l := &s.logon
	if l.acceptor == nil {
		l.user, l.tried, l.limited = "", false, false
		l.acceptor = smbauth.NewAcceptor(c.srv.cfg.acceptor(s))
	}
	if !s.valid() {
		l.preauth.Update(r.msg)
		r.resp.hash = &l.preauth
	}
	out, done, err := l.acceptor.Step(q.SecurityBuffer)
	if err != nil {
		return authFailed(r, err)
	}
	st = ntstatus.MoreProcessingRequired
	if done {
		if st = authenticated(r, q.PreviousSessionID); st != ntstatus.Success {
			return st
		}
	}
	resp := smbwire.SessionSetupResponse{SecurityBuffer: out}
	if done && c.srv.cfg.Encryption == EncryptionRequired {
		resp.SessionFlags = smbwire.SessionEncryptData
	}
	r.resp.set(resp.AppendTo(r.resp.begin(64 + len(out))))
	return st
}

// sessionToSetUp returns the session that a request names, or a new one if it names none.
func sessionToSetUp(r *request) (*Session, ntstatus.Status) {
	c := r.conn
	if r.session != nil {
		return r.session, ntstatus.Success
	}
	if s := c.sessions.get(r.hdr.SessionID); s != nil {
		return s, ntstatus.Success
	}
	if r.hdr.SessionID != 0 {
		return nil, ntstatus.UserSessionDeleted
	}
	s := newSession(c)
	if s == nil {
		return nil, ntstatus.InsufficientResources
	}
	if !c.sessions.add(s, c.srv.addSession) {
		s.cancel()
		s.memory.Return()
		return nil, ntstatus.InsufficientResources
	}
	s.logon.preauth = c.preauth
	return s, ntstatus.Success
}

// lookup returns the canonical name of a user, and the NT hash that the client must prove to
// know, unless authLimit refuses the attempt.
func (s *Session) lookup(domain, user string) (name string, ntHash [16]byte, ok bool) {
	srv := s.conn.srv
	if srv.cfg.Lookup != nil {
		name, ntHash, ok = srv.cfg.Lookup(domain, user)
	}
	if !ok {
		name = user
	}
	s.logon.user = name
	if s.logon.limited = !srv.authLimit.admits(s.conn.origin, name); s.logon.limited {
		return "", [16]byte{}, false
	}
	s.logon.tried = true
	s.logon.proof = proof{ntHash: ntHash}
	return name, ntHash, ok
}

// lookupPrincipal returns the canonical name of the user of a Kerberos principal. The client has
// proved its identity, so authLimit does not apply.
func (s *Session) lookupPrincipal(realm, user string) (name string, ok bool) {
	if lookup := s.conn.srv.cfg.Lookup; lookup != nil {
		name, _, ok = lookup(realm, user)
	}
	s.logon.proof = proof{byTicket: true}
	s.logon.user = name
	return name, ok
}

// authFailed ends a session whose authentication failed, even if it was valid before. The
// delay of the response also delays the next attempt, against password guessing.
//
// Source: [MS-SMB2 3.3.5.5.3]
func authFailed(r *request, err error) ntstatus.Status {
	var e *smbauth.Error
	domain, user := "", ""
	if errors.As(err, &e) {
		domain, user = e.Domain, e.User
	}
	srv, l := r.conn.srv, &r.session.logon
	srv.stats.authFailures.Add(1)
	if l.limited {
		srv.stats.authLimited.Add(1)
		err = errAuthLimited
	}
	if l.tried {
		srv.authLimit.failed(r.conn.origin, l.user)
	}
	st := r.refuseLogon(user, domain, err, l.tried)
	r.resp.hash = nil
	r.session.end()
	r.conn.authFailures++
	delay := time.NewTimer(srv.cfg.FailureDelay)
	defer delay.Stop()
	select {
	case <-delay.C:
	case <-r.conn.ctx.Done():
	}
	return st
}

// Refusals of users that have proved their identity, and of clients that cannot prove it.
var (
	errNoCipher  = ntstatus.AccessDenied.Because(errors.New("the server requires encryption, and the client cannot encrypt"))
	errOtherUser = ntstatus.AccessDenied.Because(errors.New("the session is of another user"))
	errUserLimit = ntstatus.RequestNotAccepted.Because(errors.New("the user has too many connections"))
	errChanged   = ntstatus.LogonFailure.Because(errors.New("the user or the password has changed"))
)

// refuseLogon logs a refused logon, and returns its status. bounded says that the limit of wrong
// passwords bounds the number of such logons.
func (r *request) refuseLogon(user, domain string, err error, bounded bool) ntstatus.Status {
	r.conn.srv.peerLog.Warn(r.conn.log, "smb: authentication failed", "user", user, "domain", domain, "error", err)
	r.auditRefusedLogon(user, domain, err, bounded)
	return statusOf(err)
}

// authenticated makes the session valid, or confirms it. A user with too many connections is
// refused. Precondition: the read turn is held, so no other goroutine ends a session that is pending.
//
// Source: [MS-SMB2 3.3.5.5.3]
func authenticated(r *request, previous uint64) ntstatus.Status {
	s, a, c := r.session, r.session.logon.acceptor, r.conn
	s.logon.acceptor = nil
	c.srv.authLimit.succeeded(c.origin, s.logon.user)
	switch s.state.Load() {
	case sessionValid:
		return renewed(r, a)
	case sessionClosed: // since the authentication began; requests in flight use its user and its keys
		s.end()
		return ntstatus.UserSessionDeleted
	}
	dialect, signing, cipher := c.agreed.dialect, c.agreed.signing, c.agreed.cipher
	s.user, s.domain = a.User(), a.Domain()
	s.keys = smbauth.DeriveKeys(dialect, cipher, a.SessionKey(), s.logon.preauth)
	s.signer = smbauth.NewSigner(signing, s.keys.Signing)
	s.cipher = newSessionCipher(cipher, &s.keys)
	s.limiter = c.srv.limiterOf(s.user)
	// First: a session that ends for this one no longer counts as a connection of the user.
	resumed := s.succeed(previous)
	if !c.sessions.establish(s) {
		s.suspend()
		return r.refuseLogon(s.user, s.domain, errUserLimit, false)
	}
	s.expires(a.Expires())
	if st := r.confirm(); st != ntstatus.Success {
		return st
	}
	if c.user == "" {
		c.user = s.user
	}
	r.resp.signer, r.resp.hash = s.signer, nil
	s.audit("logon", slog.String("domain", s.domain), slog.String("mechanism", a.Mechanism()), slog.String("dialect", dialectName(dialect)), slog.String("signing", signing.String()), slog.String("cipher", cipher.String()))
	c.log.Info("smb: logged on", "user", s.user, "domain", s.domain, "mechanism", a.Mechanism(), "dialect", dialectName(dialect), "signing", signing.String(), "cipher", cipher.String())
	if resumed {
		s.audit("session resumed", slog.String("previous", fmt.Sprintf("%016x", previous)))
		c.log.Info("smb: session resumed", "user", s.user, "previous", previous)
	}
	return ntstatus.Success
}

// succeed gives the session a lineage. If the client names a previous session, the session continues the
// lineage of that session, else it begins a new one. It reports whether the session continues a lineage. A previous session of
// another client is replaced: Lineage.forsake. The lineage of a session without durable opens ends, when it is suspended.
//
// Source: [MS-SMB2 3.3.5.5.3], [OP-42], [OP-112]
func (s *Session) succeed(previous uint64) (resumed bool) {
	t, client := s.conn.srv.lineages, s.conn.agreed.client.GUID
	for previous != 0 {
		l, current, continued := t.find(previous, s.user, client)
		switch {
		case l == nil:
			previous = 0
			continue
		case continued && current != nil:
			current.retire()
		case continued:
			select {
			case <-t.left(l):
			case <-s.ctx.Done():
			}
		case current != nil:
			current.suspend()
		}
		if !continued {
			l.forsake()
			previous = 0
		} else if t.attach(l, s) {
			s.lineage = l
			return true
		}
	}
	s.lineage = t.begin(s, client)
	return false
}

// renewed confirms a valid session after another authentication, which keeps its user and its keys.
//
// Source: [MS-SMB2 3.3.5.5.3]
func renewed(r *request, a *smbauth.Acceptor) ntstatus.Status {
	s := r.session
	if s.user != a.User() {
		s.end()
		return r.refuseLogon(a.User(), a.Domain(), errOtherUser, false)
	}
	s.expires(a.Expires())
	return r.confirm()
}

// handleLogoff ends the session and its opens before the response is sent.
//
// Source: [MS-SMB2 3.3.5.6], [OP-58b]
func handleLogoff(r *request, _ smbwire.Empty) ntstatus.Status {
	r.session.loggedOff.Store(true)
	r.session.end()
	return r.resp.empty()
}

// handleEcho shows that the server is alive.
//
// Source: [MS-SMB2 3.3.5.17]
func handleEcho(r *request, _ smbwire.Empty) ntstatus.Status { return r.resp.empty() }
