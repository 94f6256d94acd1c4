package smbclient

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbwire"
)

const (
	// readAhead is how much of small messages one system call may bring in.
	readAhead = 16 << 10
	// slack is by how much an answer may be longer than the payload asked for.
	slack = 4 << 10
	// cancelGrace is how long a message whose caller has given up may still take to
	// be written before the connection is given up too: half a message cannot be
	// taken back.
	cancelGrace = 2 * time.Second
)

// conn is the transport: it sends requests and matches answers.
//
// Source: [MS-SMB2 3.2.1.2]
type conn struct {
	nc      net.Conn
	log     *slog.Logger
	timeout time.Duration
	bufs    buffers

	writing chan struct{} // holds one token: the turn to write

	wg   sync.WaitGroup // reader and janitor
	down chan struct{}  // closed when the connection has ended
	wake chan struct{}  // tells the janitor of jobs

	leaving atomic.Bool // LOGOFF is on its way

	mu      sync.Mutex
	err     error // why down
	nextID  uint64
	credits credits
	pending map[uint64]*pending
	jobs    []func(context.Context)

	// Fixed once the session is there.
	dialect   uint16
	largeMTU  bool
	sessionID uint64
	signer    smbauth.Signer // nil while nothing can be signed
	mustSign  bool
	// sent sees every request, while the session is being set up.
	sent func(msg []byte)
}

func newConn(nc net.Conn, cfg *Config) *conn {
	c := &conn{
		nc: nc, log: cfg.Logger, timeout: cfg.Timeout,
		writing: make(chan struct{}, 1), down: make(chan struct{}), wake: make(chan struct{}, 1),
		pending: make(map[uint64]*pending),
		credits: credits{target: cfg.Credits, held: 1},
	}
	c.writing <- struct{}{}
	c.wg.Add(2)
	go c.read()
	go c.tidy()
	return c
}

// fail ends the connection for the first reason given.
func (c *conn) fail(cause error) {
	if errors.Is(cause, io.EOF) {
		cause = errLeft // io.EOF is the end of a file, and would be taken for it
	}
	c.mu.Lock()
	first := c.err == nil
	if first {
		c.err = &lostError{cause}
		close(c.down)
	}
	c.mu.Unlock()
	if first {
		c.nc.Close()
	}
}

// broken is why the connection has ended, or nil.
func (c *conn) broken() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// close ends the connection and waits for its goroutines.
func (c *conn) close() {
	c.fail(net.ErrClosed)
	c.wg.Wait()
}

// read takes answers from the connection until it ends.
func (c *conn) read() {
	defer c.wg.Done()
	r := bufio.NewReaderSize(c.nc, readAhead)
	for {
		if err := c.readOne(r); err != nil {
			c.fail(err)
			return
		}
	}
}

// readOne reads one message and hands it on. Memory is taken only for an answer
// to a request that was sent, and as much as it can be long.
func (c *conn) readOne(r *bufio.Reader) error {
	const peek = smbwire.FrameHeaderSize + smbwire.HeaderSize
	head, err := r.Peek(peek)
	if err != nil {
		if errors.Is(err, io.EOF) && len(head) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	n, err := smbwire.DecodeFrameHeader(head)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	h, err := smbwire.DecodeHeader(head[smbwire.FrameHeaderSize:])
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	limit, err := c.limit(&h)
	if err != nil {
		return err
	}
	if n > limit || n < smbwire.HeaderSize {
		return fmt.Errorf("%w: an answer to %v of %d bytes, limit %d", ErrProtocol, h.Command, n, limit)
	}
	if _, err := r.Discard(smbwire.FrameHeaderSize); err != nil {
		return err
	}
	buf := c.bufs.get(n)
	if _, err := io.ReadFull(r, buf.b); err != nil {
		c.bufs.put(buf)
		return err
	}
	if h.NextCommand == 0 {
		return c.dispatch(&response{Header: h, msg: buf.b, buf: buf})
	}
	defer c.bufs.put(buf)
	for more := buf.b; more != nil; {
		h, element, rest, err := smbwire.Next(more)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		own := c.bufs.get(len(element))
		copy(own.b, element)
		if err := c.dispatch(&response{Header: h, msg: own.b, buf: own}); err != nil {
			return err
		}
		more = rest
	}
	return nil
}

// limit is how long the message that begins with h may be.
func (c *conn) limit(h *smbwire.Header) (int, error) {
	if h.Flags&smbwire.FlagResponse == 0 {
		return 0, fmt.Errorf("%w: a request from the server", ErrProtocol)
	}
	if h.MessageID == smbwire.OplockBreakMessageID {
		return slack, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pending[h.MessageID]
	if p == nil {
		return 0, errUnknown(h)
	}
	return p.limit, nil
}

func errUnknown(h *smbwire.Header) error {
	return fmt.Errorf("%w: an answer to %v with an id (%d) that nobody waits for", ErrProtocol, h.Command, h.MessageID)
}

// dispatch hands an answer to its call.
func (c *conn) dispatch(r *response) error {
	if r.MessageID == smbwire.OplockBreakMessageID {
		c.bufs.put(r.buf)
		return nil // no oplock is ever asked for, so there is none to break
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pending[r.MessageID]
	switch {
	case p == nil:
		return errUnknown(&r.Header)
	case r.Command != p.command:
		return fmt.Errorf("%w: an answer to %v instead of %v", ErrProtocol, r.Command, p.command)
	case r.Status == ntstatus.Pending && r.Flags&smbwire.FlagAsync != 0:
		p.async, p.asyncID = true, r.AsyncID
		c.credits.grantedLocked(0, int(r.Credits))
		c.bufs.put(r.buf)
		return nil
	}
	delete(c.pending, r.MessageID)
	c.credits.grantedLocked(p.charge, int(r.Credits))
	if !p.abandoned {
		p.done <- r
		return nil
	}
	c.lateLocked(p, r)
	return nil
}

// lateLocked deals with an answer that nobody waits for any more.
func (c *conn) lateLocked(p *pending, r *response) {
	if p.late == nil && p.changes == nil {
		c.bufs.put(r.buf)
		return
	}
	c.doLocked(func(ctx context.Context) {
		r, err := c.verify(r)
		if err != nil {
			return
		}
		if p.late != nil {
			p.late(ctx, r)
		}
		if p.changes != nil {
			c.mu.Lock()
			p.changes.unsettled.doneLocked()
			c.mu.Unlock()
		}
		c.free(r)
	})
}

// doLocked gives the janitor something to do. The context of a job ends after
// Config.Timeout.
func (c *conn) doLocked(job func(context.Context)) {
	c.jobs = append(c.jobs, job)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// tidy is the janitor.
func (c *conn) tidy() {
	defer c.wg.Done()
	for {
		select {
		case <-c.down:
			return
		case <-c.wake:
		}
		c.mu.Lock()
		jobs := c.jobs
		c.jobs = nil
		c.mu.Unlock()
		for _, job := range jobs {
			ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
			job(ctx)
			cancel()
		}
	}
}
