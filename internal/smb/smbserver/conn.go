package smbserver

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbwire"
)

// Causes for which a connection is cut.
var (
	errServerClosed = errors.New("server closed")
	errNoSession    = errors.New("no session was authenticated in time")
	errCrowded      = errors.New("others need the place of a connection without a session")
	errGuessing     = errors.New("too many failed authentications")
	errProtocol     = errors.New("protocol violation")
	errTooMany      = errors.New("too many connections, all of them authenticated")
)

// maxIdleWorkers is how many goroutines of a connection wait for their turn to
// read; one more that comes free ends.
const maxIdleWorkers = 2

// maxAuthFailures is how many authentications of a connection may fail. The last
// of them is answered, and then the connection is cut.
const maxAuthFailures = 5

// conn is one transport connection.
//
// Source: [MS-SMB2 3.3.1.7]
type conn struct {
	srv     *Server
	nc      net.Conn
	log     *slog.Logger
	credits *credits
	ctx     context.Context
	cancel  context.CancelCauseFunc
	arrival uint64 // the how-manieth connection of the server this is
	origin  netip.Prefix

	valid atomic.Int32 // sessions that have authenticated; changed under mu

	// turn is held by the goroutine that reads. What it guards is written
	// under it, and may be read by whoever had it later.
	turn    sync.Mutex
	waiting atomic.Int32 // goroutines that want the turn
	frames  *frames
	negotiated
	preauth      smbauth.PreauthHash
	authFailures int
	user         string // who was the first to authenticate

	writeMu sync.Mutex

	mu        sync.Mutex
	workers   int // goroutines, those included that are parked
	parked    int
	sessions  map[uint64]*Session
	authTimer *time.Timer
	running   map[uint64]context.CancelFunc // by message id: what CANCEL can reach

	// patience ends when no request may wait any more.
	patience  context.Context
	impatient context.CancelFunc
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{
		srv:      s,
		nc:       nc,
		log:      s.cfg.Logger.With("remote", nc.RemoteAddr().String()),
		origin:   origin(nc.RemoteAddr()),
		credits:  newCredits(s.cfg.MaxCredits),
		frames:   newFrames(nc, &s.bufs, s.memory, s.cfg.StallTimeout),
		sessions: make(map[uint64]*Session),
		running:  make(map[uint64]context.CancelFunc),
		workers:  1,
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.patience, c.impatient = context.WithCancel(c.ctx)
	return c
}

// start begins to serve. The server has entered the connection.
func (c *conn) start() {
	c.mu.Lock()
	c.authTimer = time.AfterFunc(c.srv.cfg.AuthTimeout, c.authExpired)
	c.mu.Unlock()
	go c.work()
}

// authExpired cuts the connection if nobody has authenticated.
func (c *conn) authExpired() {
	c.mu.Lock()
	late := c.valid.Load() == 0
	c.mu.Unlock()
	if late {
		c.cut(errNoSession)
	}
}

// cut ends the connection, with the first cause that is given. It does not
// wait.
func (c *conn) cut(cause error) {
	c.cancel(cause)
	c.nc.Close()
}

// drain ends the connection once the requests that have arrived are answered, those that
// wait for a lock with CANCELLED. It does not wait.
func (c *conn) drain() {
	c.frames.stop()
	c.impatient()
}

// work takes turns at reading a message, and answers what it has read.
func (c *conn) work() {
	defer c.leave()
	for {
		c.waiting.Add(1)
		c.turn.Lock()
		c.waiting.Add(-1)
		if c.ctx.Err() != nil {
			c.turn.Unlock()
			return
		}
		job, err := c.receive()
		if errors.Is(err, errDrained) {
			c.turn.Unlock()
			return
		}
		if err != nil {
			c.cut(err)
			c.turn.Unlock()
			return
		}
		if job != nil && c.waiting.Load() == 0 {
			c.hire()
		}
		c.turn.Unlock()
		if job == nil {
			continue
		}
		job.run()
		if c.waiting.Load() >= maxIdleWorkers {
			return
		}
	}
}

// hire starts another goroutine if the limit allows one.
func (c *conn) hire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.workers-c.parked < c.srv.cfg.MaxWorkers {
		c.workers++
		go c.work()
	}
}

// park starts a goroutine beside those that hire starts, for a request that waits;
// false says that there are too many.
func (c *conn) park(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parked >= c.srv.cfg.MaxWaits {
		return false
	}
	c.parked++
	c.workers++
	go func() {
		defer c.leave()
		f()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.parked--
	}()
	return true
}

// leave ends one goroutine, and with the last of them the connection. While
// the connection lives one at least is left: they only end if others wait, or
// if no more messages are read.
func (c *conn) leave() {
	c.mu.Lock()
	c.workers--
	last := c.workers == 0
	c.mu.Unlock()
	if last {
		c.teardown()
	}
}

// teardown ends all sessions. No other goroutine of the connection is left.
func (c *conn) teardown() {
	c.cut(errServerClosed) // if it was drained: else it is cut
	c.mu.Lock()
	c.authTimer.Stop()
	all := make([]*Session, 0, len(c.sessions))
	for _, s := range c.sessions {
		all = append(all, s)
	}
	c.mu.Unlock()
	for _, s := range all {
		s.end()
	}
	cause := context.Cause(c.ctx)
	switch {
	case errors.Is(cause, errProtocol) || errors.Is(cause, errFrame) || errors.Is(cause, errNoSession) || errors.Is(cause, errGuessing):
		c.srv.noise.Warn(c.log, "smb: connection cut", "cause", cause)
	case !errors.Is(cause, io.EOF):
		c.log.Debug("smb: connection cut", "cause", cause)
	}
	c.srv.forget(c)
}

// write sends one message that consists of the given parts, each with the
// headroom before it. It takes over the buffers. A client that does not read
// is cut, and one that is cut gets nothing more: an answer that is held back would
// come early otherwise, just before the connection ends.
func (c *conn) write(parts ...*buffer) {
	total := 0
	for _, p := range parts {
		total += len(p.b) - headroom
	}
	head := parts[0].b
	smbwire.PutFrameHeader(head, total)
	c.writeMu.Lock()
	err := c.ctx.Err()
	if err == nil {
		err = c.nc.SetWriteDeadline(time.Now().Add(allowance(c.srv.cfg.StallTimeout, total)))
	}
	if err == nil {
		if len(parts) == 1 {
			_, err = c.nc.Write(head)
		} else {
			all := make(net.Buffers, len(parts))
			for i, p := range parts {
				all[i] = p.b[headroom:]
			}
			all[0] = head
			_, err = all.WriteTo(c.nc)
		}
	}
	c.writeMu.Unlock()
	for _, p := range parts {
		p.free()
	}
	if err != nil {
		c.cut(err)
	}
}

// addSession enters a session that begins to authenticate; false says that
// there are too many.
func (c *conn) addSession(s *Session) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sessions) >= c.srv.cfg.MaxSessions {
		return false
	}
	c.srv.addSession(s)
	c.sessions[s.id] = s
	return true
}

// session finds a session of this connection, or nil.
func (c *conn) session(id uint64) *Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions[id]
}

// establish makes a session valid. It reports false if it was ended meanwhile.
func (c *conn) establish(s *Session) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.state.CompareAndSwap(sessionPending, sessionValid) {
		return false
	}
	s.counted = true
	c.valid.Add(1)
	c.authTimer.Stop()
	return true
}

// dropSession takes a session out. A connection without any session that is
// valid has to authenticate anew in time.
func (c *conn) dropSession(s *Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions[s.id] != s {
		return
	}
	delete(c.sessions, s.id)
	if !s.counted {
		return
	}
	if c.valid.Add(-1) == 0 && c.ctx.Err() == nil {
		c.authTimer.Reset(c.srv.cfg.AuthTimeout)
	}
}

// authenticated reports whether any session is valid.
func (c *conn) authenticated() bool { return c.valid.Load() > 0 }

// cancelable registers what CANCEL may stop. done must be called after it.
func (c *conn) cancelable(ctx context.Context, id uint64) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancel(ctx)
	c.mu.Lock()
	c.running[id] = cancel
	c.mu.Unlock()
	return ctx, func() {
		c.mu.Lock()
		delete(c.running, id)
		c.mu.Unlock()
		cancel()
	}
}

// stop cancels the request with that message id, if it is still running.
func (c *conn) stop(id uint64) {
	c.mu.Lock()
	cancel := c.running[id]
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}
