package smbserver

import (
	"sync"

	"lwio/internal/ntstatus"
)

// Reauthorize ends the sessions whose user Config.Lookup no longer returns, or returns with
// another password. A logon by Kerberos does not depend on the password: the KDC decides about its
// tickets, and the session ends with its ticket. Reauthorize ends the sessions together, and
// returns their number when their opens are closed. A logon that began before the change, and ends
// after it, fails. The caller changes the results of Config.Lookup first.
func (s *Server) Reauthorize() (ended int) {
	var ending sync.WaitGroup
	for _, ss := range s.validSessions() {
		if !ss.current() {
			ended++
			ending.Go(ss.end)
		}
	}
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
	name, ntHash, ok := s.conn.srv.cfg.Lookup(s.domain, s.user)
	return ok && name == s.user && (proven.byTicket || ntHash == proven.ntHash)
}
