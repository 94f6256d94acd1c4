package smbserver

import (
	"sync"

	"lwio/internal/ntstatus"
)

// Reauthorize ends the sessions whose user Config.Lookup no longer returns, or returns with
// another password, and suspended lineages likewise. A logon by Kerberos does not depend on the
// password: the KDC decides about its tickets, and the session ends with its ticket. Reauthorize ends
// all of them together, and returns their number when their opens are closed. A logon that began
// before the change, and ends after it, fails. The caller changes the results of Config.Lookup first.
func (s *Server) Reauthorize() (ended int) {
	var ending sync.WaitGroup
	for _, ss := range s.validSessions() {
		if !ss.current() {
			ended++
			ending.Go(ss.end)
		}
	}
	for l, e := range s.lineages.suspended() {
		if !s.accepts(l.user, e.domain, e.proof) {
			ended++
			ending.Go(l.end)
		}
	}
	s.lineages.stale.forget(func(o staleOpen) bool {
		name, _, ok := s.cfg.Lookup(o.domain, o.key.user)
		return !ok || name != o.key.user
	})
	ending.Wait()
	return ended
}

// validSessions lists the sessions that have authenticated.
func (s *Server) validSessions() []*Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	valid := make([]*Session, 0, len(s.sessions))
	for _, ss := range s.sessions {
		if ss.valid() {
			valid = append(valid, ss)
		}
	}
	return valid
}

// confirm stores the proof of the client, and ends the session if the user
// or the password has changed since the proof began. Precondition: the session is valid, so
// that Reauthorize finds it.
func (r *request) confirm() ntstatus.Status {
	s := r.session
	proven := s.logon.proof
	s.proven.Store(&proven)
	if s.current() {
		return ntstatus.Success
	}
	s.end()
	return r.refuseLogon(s.user, s.domain, errChanged, false)
}

// current reports whether the user still exists, with the password of a logon by password.
func (s *Session) current() bool {
	proven := s.proven.Load()
	if proven == nil {
		return true // confirm looks when the proof is stored
	}
	return s.conn.srv.accepts(s.user, s.domain, *proven)
}

// accepts reports whether a user still exists, with the password of a logon by password.
func (s *Server) accepts(user, domain string, proven proof) bool {
	name, ntHash, ok := s.cfg.Lookup(domain, user)
	return ok && name == user && (proven.byTicket || ntHash == proven.ntHash)
}
