package smbserver

import (
	"io"
	"time"

	"lwio/internal/smb/smbwire"
)

const (
	// logonGrace is the time in which a connection without an authenticated session may log on after
	// the begin of Shutdown: most clients do not try a logon again.
	logonGrace = 100 * time.Millisecond
	// lingerTime bounds the wait for the clients to end their connections. A close before that could
	// make the system of a client discard the last responses.
	lingerTime = 100 * time.Millisecond
)

// drain ends the connection after all received requests have their responses, and others is closed; nil
// is none.
// Requests that wait get no response if the client learns of the end by a notification; else they get
// CANCELLED. It does not wait.
func (c *conn) drain(others <-chan struct{}) {
	if others == nil {
		none := make(chan struct{})
		close(none)
		others = none
	}
	c.draining.Store(&others)
	if c.sessions.authenticated() {
		c.reader.stop()
	} else {
		time.AfterFunc(logonGrace, c.reader.stop) // on a closed connection without an effect
	}
	c.endWaits()
}

// stopAfterLogon ends the time in which a connection that is drained may log on.
func (c *conn) stopAfterLogon() {
	if c.draining.Load() != nil && c.sessions.authenticated() {
		c.reader.stop()
	}
}

// notifies reports whether the client takes notifications.
func (c *conn) notifies() bool { return c.agreed.caps&smbwire.CapNotifications != 0 }

// announceEnd notifies the client of a drained connection, once others is closed, that the server has
// answered every request that it has begun. It reports whether it has sent the notification.
// Precondition: no goroutine serves a request.
//
// Source: [MS-SMB2 2.2.44], [OP-56]
func (c *conn) announceEnd(all []*Session) (announced bool) {
	others := c.draining.Load()
	if others == nil || c.ctx.Err() != nil {
		return false
	}
	select {
	case <-*others:
	case <-c.ctx.Done():
		return false
	}
	if !c.notifies() {
		return false
	}
	for _, s := range all {
		if s.valid() && s.used.Load() { // else the client may not have the keys yet, and has sent nothing
			c.sendDrained(s)
			announced = true
		}
	}
	return announced
}

// sendDrained sends the notification for one session.
func (c *conn) sendDrained(s *Session) {
	out := c.buffer(bufferSize(smallBody), s.user)
	n := smbwire.Notification{Type: smbwire.NotifySessionClosed, Mark: smbwire.DrainedMark}
	out.B = n.AppendTo(out.B[:bodyOffset])
	h := smbwire.Header{
		Command: smbwire.CommandNotification, Flags: smbwire.FlagResponse,
		MessageID: smbwire.OplockBreakMessageID, SessionID: s.id,
	}
	msg := out.B[headroom:]
	if s.cipher != nil {
		h.Put(msg)
		c.write(s, out)
		return
	}
	h.Flags |= smbwire.FlagSigned
	h.Put(msg)
	s.signer.Sign(msg)
	c.write(nil, out)
}

// linger ends the direction to the client, and waits until the client ends the other one.
func (c *conn) linger() {
	w, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || w.CloseWrite() != nil || c.nc.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.Copy(io.Discard, c.nc) // requests that are not begun
}
