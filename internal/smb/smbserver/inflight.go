package smbserver

import (
	"sync"
	"time"

	"lwio/internal/smb/smbwire"
)

// drainTime bounds the wait for the requests in flight of a session that is replaced.
const drainTime = 5 * time.Second

// inFlight counts the requests in flight that change files. Safe for concurrent use.
type inFlight struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // made by wait; closed when n is 0
}

// begin counts a request in.
func (f *inFlight) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
}

// end counts a request out.
func (f *inFlight) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n--; f.n == 0 && f.idle != nil {
		close(f.idle)
		f.idle = nil
	}
}

// wait waits until no request is in flight, for a limited time. It reports false after that time. The
// caller has made sure that no request begins any more.
func (f *inFlight) wait(most time.Duration) bool {
	f.mu.Lock()
	if f.n == 0 {
		f.mu.Unlock()
		return true
	}
	if f.idle == nil {
		f.idle = make(chan struct{})
	}
	idle := f.idle
	f.mu.Unlock()
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-idle:
		return true
	case <-late.C:
		return false
	}
}

// changesFiles reports whether requests with a command change files, names or locks.
func changesFiles(c smbwire.Command) bool {
	switch c {
	case smbwire.CommandCreate, smbwire.CommandClose, smbwire.CommandWrite, smbwire.CommandLock, smbwire.CommandIoctl,
		smbwire.CommandSetInfo, smbwire.CommandTreeDisconnect:
		return true
	}
	return false
}

// tracker counts one request as in flight: of its session, and of a durable open. It belongs to the
// goroutine that serves the request.
type tracker struct{ session, open *inFlight }

// ofSession counts the request in.
func (t *tracker) ofSession(f *inFlight) {
	f.begin()
	t.session = f
}

// ofOpen counts the request in, if ofSession has.
func (t *tracker) ofOpen(f *inFlight) {
	if t.session != nil && t.open == nil {
		f.begin()
		t.open = f
	}
}

// end counts the request out. It is called when the request has had its effect.
func (t *tracker) end() {
	if t.session != nil {
		t.session.end()
	}
	if t.open != nil {
		t.open.end()
	}
	*t = tracker{}
}
