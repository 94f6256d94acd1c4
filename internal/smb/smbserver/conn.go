package smbserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"

	"lwio/internal/account"
	"lwio/internal/evict"
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbbuf"
	"lwio/internal/smb/smbwire"
)

// Causes for which a connection is cut.
var (
	errServerClosed = errors.New("server closed")
	errNoSession    = errors.New("no session was authenticated in time")
	errEvicted      = errors.New("evicted: no authenticated session, and too many connections")
	errAuthFailures = errors.New("too many failed authentications")
	errProtocol     = errors.New("protocol violation")
	errTooMany      = errors.New("too many connections, all of them authenticated")
)

// maxAuthFailures is the number of failed authentications after which a connection is cut.
// The last failure still has a response.
const maxAuthFailures = 5

// Config.unauthenticatedLimit: kerberosLimit is a token of smbauth.MaxKerberosToken and the rest of
// the message, in a buffer of the smallest fitting class.
const (
	unauthenticatedLimit = 16 << 10
	kerberosLimit        = smbauth.MaxKerberosToken + 512 - smbauth.TagSize
)

// allowance is the memory for messages and sessions that each connection may hold beside
// Config.Memory, in bytes. Before authentication a connection has no more: the longest message, and
// maxPending sessions. Together with its goroutine and its tables a connection takes less than 64
// KiB.
const allowance = 48 << 10

// transferSlack is the number of bytes that a message may hold in addition to the largest
// payload.
const transferSlack = 64 << 10

// conn is one transport connection. Each of its components has a lock of its own.
//
// Source: [MS-SMB2 3.3.1.7]
type conn struct {
	srv    *Server
	nc     net.Conn
	log    *slog.Logger
	origin netip.Prefix // of the client's address, for limits

	ctx    context.Context
	cancel context.CancelCauseFunc
	// waits is the context of parked requests; endWaits ends them.
	waits    context.Context
	endWaits context.CancelFunc
	// draining is set by drain: the connection ends once the channel is closed.
	draining atomic.Pointer[<-chan struct{}]

	memory   *account.Account // of messages and sessions
	credits  *credits
	writer   frameWriter
	workers  workers
	notices  notices
	sessions *sessionTable
	cancels  cancelTable

	// Written with workers.turn held only. Read with it held, or while a message is
	// served that was read after the write.
	reader       *frameReader
	agreed       agreement
	preauth      smbauth.PreauthHash
	authFailures int
	user         string // of the first authenticated session
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{
		srv:      s,
		nc:       nc,
		log:      s.cfg.Logger.With("remote", nc.RemoteAddr().String()),
		origin:   evict.Host(nc.RemoteAddr()),
		credits:  newCredits(s.cfg.MaxCredits),
		writer:   frameWriter{nc: nc, stall: s.cfg.StallTimeout},
		sessions: newSessionTable(s, evict.Host(nc.RemoteAddr())),
		memory:   account.NewAccount(s.memory, allowance),
	}
	c.reader = newFrameReader(nc, &s.bufs, c.memory, s.cfg.StallTimeout)
	c.workers = workers{limit: s.cfg.MaxWorkers, waitLimit: s.cfg.MaxWaits, next: c.next, serve: c.serve, closed: c.teardown}
	c.notices.conn = c
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.waits, c.endWaits = context.WithCancel(c.ctx)
	return c
}

// start begins to serve. The server has entered the connection.
func (c *conn) start() {
	c.sessions.start(func() { c.cut(errNoSession) })
	c.workers.start()
}

// cut ends the connection with the first cause given. It does not wait.
func (c *conn) cut(cause error) {
	c.cancel(cause)
	c.nc.Close()
}

// next reads a message for the worker pool, and cuts the connection on an error.
func (c *conn) next() (m *message, ok bool) {
	if c.ctx.Err() != nil {
		return nil, false
	}
	m, err := c.receive()
	if err != nil && !errors.Is(err, errDrained) {
		c.cut(err)
	}
	return m, err == nil
}

// serve serves a message for the worker pool. A message that waited until the connection was cut is not
// served.
func (c *conn) serve(m *message, queued bool) {
	if queued && c.ctx.Err() != nil {
		m.drop()
		return
	}
	m.run()
}

// receive reads the next message and serves it if it must be served in order, or at once. It returns any
// other message, nil if nothing is left to serve. An error ends the connection.
//
// Source: [MS-SMB2 3.3.5.2]
func (c *conn) receive() (*message, error) {
	limit := c.srv.cfg.unauthenticatedLimit()
	if c.sessions.authenticated() {
		limit = c.srv.cfg.MaxTransferSize + transferSlack
	}
	frame, most, err := c.reader.next(c.ctx, limit, c.user)
	if err != nil {
		return nil, err
	}
	c.srv.stats.requests.Add(1)
	m := &message{conn: c, frame: frame, data: frame.B, most: most}
	if smbwire.IsEncrypted(frame.B) {
		m.encrypted, m.data, err = c.decrypt(frame.B)
	} else if errors.Is(smbwire.CheckProtocol(frame.B), smbwire.ErrSMB1) {
		defer frame.Free()
		return nil, c.negotiateSMB1(frame.B)
	}
	if err == nil {
		err = m.parse()
	}
	if err != nil {
		frame.Free()
		return nil, fmt.Errorf("%w: %w", errProtocol, err)
	}
	switch {
	case len(m.reqs) == 0:
		m.free()
		return nil, nil
	case m.ordered(), m.prompt(), !c.sessions.authenticated():
		m.run()
		c.stopAfterLogon()
		if c.authFailures >= maxAuthFailures {
			return nil, errAuthFailures
		}
		return nil, c.ctx.Err()
	}
	return m, nil
}

// buffer returns a short buffer of length n for a response. Its memory is charged even above the
// limits.
func (c *conn) buffer(n int, user string) *smbbuf.Buffer {
	buf := c.srv.bufs.Get(n)
	buf.Charge = c.memory.ForceCharge(user, int64(smbbuf.Size(n)), account.Last)
	return buf
}

// write sends one message that consists of the given responses, and frees them. The message
// is encrypted for a session, if that is not nil. A client that does not read is cut.
func (c *conn) write(s *Session, parts ...*smbbuf.Buffer) {
	if s == nil {
		if err := c.writer.write(c.ctx, parts); err != nil {
			c.cut(err)
		}
		return
	}
	msg, err := c.encrypt(s, parts)
	if err == nil {
		err = c.writer.writeEncrypted(c.ctx, msg)
	}
	if err != nil {
		c.cut(err)
	}
}

// teardown ends all sessions, as lost ones. The last goroutine of the connection calls it.
func (c *conn) teardown() {
	all := c.sessions.stop()
	announced := c.announceEnd(all)
	for _, s := range all {
		s.suspend()
	}
	if announced {
		c.linger()
	}
	c.cut(errServerClosed) // a drained connection is not cut yet
	cause := context.Cause(c.ctx)
	switch {
	case errors.Is(cause, errProtocol) || errors.Is(cause, errFrame) || errors.Is(cause, errNoSession) || errors.Is(cause, errAuthFailures):
		c.srv.peerLog.Warn(c.log, "smb: connection cut", "cause", cause)
	case !errors.Is(cause, io.EOF):
		c.log.Debug("smb: connection cut", "cause", cause)
	}
	c.srv.remove(c)
}
