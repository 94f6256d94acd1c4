package smbserver

import (
	"sync/atomic"
	"time"

	"lwio/internal/smb/smbwire"
)

// expiry is the end of the authentication of a session. The zero value has none. Safe for
// concurrent use.
//
// Source: [MS-SMB2 3.3.1.8] (Session.ExpirationTime), [MS-SMB2 3.3.5.5.3]
type expiry struct {
	at    atomic.Int64 // Unix time in nanoseconds, 0 for none
	timer atomic.Pointer[time.Timer]
}

// set sets the end, zero for none. end is called if it is not moved within the renewal time after it.
func (e *expiry) set(at time.Time, renewal time.Duration, end func()) {
	var next *time.Timer
	if at.IsZero() {
		e.at.Store(0)
	} else {
		e.at.Store(at.UnixNano())
		next = time.AfterFunc(time.Until(at)+renewal, end)
	}
	if last := e.timer.Swap(next); last != nil {
		last.Stop()
	}
}

// end returns the end, zero for none.
func (e *expiry) end() time.Time {
	if at := e.at.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// passed reports whether the end has come.
func (e *expiry) passed() bool {
	at := e.at.Load()
	return at != 0 && time.Now().UnixNano() >= at
}

// stop makes a call of end impossible, unless set is called concurrently.
func (e *expiry) stop() {
	if t := e.timer.Swap(nil); t != nil {
		t.Stop()
	}
}

// servedAfterExpiry reports whether requests with a command are served after the end of the
// authentication: those that authenticate again, and those that free resources.
//
// Source: [MS-SMB2 3.3.5.2.9]
func servedAfterExpiry(c smbwire.Command) bool {
	switch c {
	case smbwire.CommandSessionSetup, smbwire.CommandLogoff, smbwire.CommandClose, smbwire.CommandLock, smbwire.CommandEcho:
		return true
	}
	return false
}
