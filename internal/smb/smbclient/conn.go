package smbclient

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"lwio/internal/smb/smbbuf"
	"lwio/internal/smb/smbwire"
)

const (
	// readAhead is the number of bytes of small messages that one system call may read.
	readAhead = 16 << 10
	// slack is the number of bytes by which a response may exceed the requested payload.
	slack = 4 << 10
)

// conn is the transport: it sends requests and matches responses. Each of its components
// has a lock of its own.
//
// Source: [MS-SMB2 3.2.1.2]
type conn struct {
	nc      net.Conn
	seen    *arrivals // nc, for the reader
	log     *slog.Logger
	timeout time.Duration
	bufs    smbbuf.Pool

	end      *ending
	credits  *credits
	requests requestTable
	writer   frameWriter
	janitor  janitor
	renewal  *renewal
	wg       sync.WaitGroup // reader, janitor, keepAlive and keepAuthenticated

	agreed     agreement                  // fixed once the session is established
	trusted    atomic.Pointer[agreement]  // agreed, for the reader; nil before the logon
	encryption atomic.Pointer[encryption] // nil before the logon, and without a cipher
	sent       func(msg []byte)           // sees each request while the session is being set up
	leaving    atomic.Bool                // LOGOFF is being sent
}

func newConn(nc net.Conn, cfg *Config) *conn {
	end := &ending{down: make(chan struct{})}
	c := &conn{
		nc: nc, seen: &arrivals{Conn: nc}, log: cfg.Logger, timeout: cfg.Timeout, end: end,
		credits: &credits{target: cfg.Credits, held: 1, timeout: cfg.Timeout, end: end},
		writer:  newFrameWriter(nc, cfg.Timeout, end),
		janitor: janitor{timeout: cfg.Timeout, wake: make(chan struct{}, 1)},
		renewal: newRenewal(),
	}
	c.requests = requestTable{credits: c.credits, byID: make(map[uint64]*pending)}
	c.wg.Go(c.read)
	c.wg.Go(func() { c.janitor.run(end.down) })
	return c
}

// fail ends the connection with the first cause given.
func (c *conn) fail(cause error) {
	if c.end.set(cause) {
		c.nc.Close()
		c.renewal.cancel()
	}
}

// close ends the connection and waits for its goroutines.
func (c *conn) close() {
	c.fail(net.ErrClosed)
	c.wg.Wait()
}

// free returns the memory of a response; nil is allowed.
func (c *conn) free(r *response) {
	if r != nil {
		r.buf.Free()
	}
}

// read takes responses from the connection until it ends.
func (c *conn) read() {
	r := bufio.NewReaderSize(c.seen, readAhead)
	for {
		if err := c.readOne(r); err != nil {
			c.fail(err)
			return
		}
	}
}

// readOne reads one message and delivers its responses. It takes memory only for a response
// to a request that was sent, up to its limit.
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
	head = head[smbwire.FrameHeaderSize:]
	if smbwire.IsEncrypted(head) {
		return c.readEncrypted(r, head, n)
	}
	h, err := smbwire.DecodeHeader(head)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if err := c.checkLimit(&h, n); err != nil {
		return err
	}
	buf, err := c.readFrame(r, n)
	if err != nil {
		return err
	}
	return c.deliverMessage(h, buf.B, buf, false)
}

// deliverMessage delivers the responses of a message that begins with h.
func (c *conn) deliverMessage(h smbwire.Header, msg []byte, buf *smbbuf.Buffer, encrypted bool) error {
	if h.NextCommand == 0 {
		return c.deliver(&response{Header: h, msg: msg, buf: buf, encrypted: encrypted})
	}
	return c.deliverCompound(msg, buf, encrypted)
}

// deliverCompound delivers the responses of a compound, each in memory of its own.
func (c *conn) deliverCompound(msg []byte, buf *smbbuf.Buffer, encrypted bool) error {
	defer buf.Free()
	for more := msg; more != nil; {
		h, element, rest, err := smbwire.Next(more)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		own := c.bufs.Get(len(element))
		copy(own.B, element)
		if err := c.deliver(&response{Header: h, msg: own.B, buf: own, encrypted: encrypted}); err != nil {
			return err
		}
		more = rest
	}
	return nil
}

// checkLimit refuses a message of n bytes that begins with h if its request allows fewer.
func (c *conn) checkLimit(h *smbwire.Header, n int) error {
	limit, err := c.limit(h)
	if err != nil {
		return err
	}
	if n > limit || n < smbwire.HeaderSize {
		return fmt.Errorf("%w: a response to %v of %d bytes, limit %d", ErrProtocol, h.Command, n, limit)
	}
	return nil
}

// limit bounds the length of the message that begins with h, in bytes.
func (c *conn) limit(h *smbwire.Header) (int, error) {
	switch {
	case h.Flags&smbwire.FlagResponse == 0:
		return 0, fmt.Errorf("%w: a request from the server", ErrProtocol)
	case h.MessageID == smbwire.OplockBreakMessageID:
		return slack, nil
	}
	return c.requests.limit(h)
}

// deliver gives a response to its call.
func (c *conn) deliver(r *response) error {
	if r.MessageID == smbwire.OplockBreakMessageID {
		defer c.free(r)
		return c.notified(r)
	}
	abandoned, interim, err := c.requests.receive(r)
	switch {
	case err != nil:
		return err
	case interim:
		c.free(r)
	case abandoned != nil:
		c.receiveLate(abandoned, r)
	}
	return nil
}
