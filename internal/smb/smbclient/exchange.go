package smbclient

import (
	"context"
	"math"
	"slices"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// part is one request, alone or in a chain.
type part struct {
	command smbwire.Command
	body    interface{ AppendTo([]byte) []byte }
	treeID  uint32
	// payload is how many bytes go along with the request or its answer: the one
	// that has more.
	payload int
	// late is called with an answer that came when nobody waited any more.
	late func(context.Context, *response)
	// patient: once the server says that it will take its time it may take any, and who
	// gives it up wants to know what became of it.
	patient bool
	// changes is the file that the request may change; nil if it changes none.
	changes *File
}

// pending is a request that has no final answer yet.
type pending struct {
	command smbwire.Command
	id      uint64
	treeID  uint32
	charge  int
	limit   int // of the message with the answer, in bytes
	late    func(context.Context, *response)
	patient bool
	changes *File
	done    chan *response // has room for the answer

	// Guarded by conn.mu.
	abandoned bool
	async     bool
	asyncID   uint64
}

// response is one answer. Whoever has it calls conn.free.
type response struct {
	smbwire.Header
	msg []byte // from the header on
	buf *buffer
}

// body is what follows the header.
func (r *response) body() []byte { return r.msg[smbwire.HeaderSize:] }

// free gives an answer's memory back.
func (c *conn) free(r *response) {
	if r != nil {
		c.bufs.put(r.buf)
	}
}

// charge is how many credits that much payload costs.
//
// Source: [MS-SMB2 3.1.5.2]
func (c *conn) charge(payload int) int {
	if !c.largeMTU {
		return 1
	}
	return max(1, (payload+creditUnit-1)/creditUnit)
}

// take waits for credits: as many as wanted, or no less than least if the server
// will not give more.
func (c *conn) take(ctx context.Context, least, want int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return 0, c.err
	}
	wait := true
	if len(c.credits.queue) == 0 {
		var got int
		if got, wait = c.credits.tryLocked(least, want); got > 0 {
			c.mu.Unlock()
			return got, nil
		}
	}
	if !wait {
		c.mu.Unlock()
		return 0, errCredits(least)
	}
	w := &creditWaiter{least: least, want: want, got: make(chan int, 1)}
	c.credits.queue = append(c.credits.queue, w)
	c.mu.Unlock()

	timer := time.NewTimer(c.timeout)
	defer timer.Stop()
	var err error
	select {
	case n, ok := <-w.got:
		if !ok {
			return 0, errCredits(least)
		}
		return n, nil
	case <-c.down:
		err = c.broken()
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = errTimeout
	}
	c.leaveQueue(w)
	return 0, err
}

// leaveQueue ends a wait for credits; those that came at the last moment go back.
func (c *conn) leaveQueue(w *creditWaiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.credits.queue = slices.DeleteFunc(c.credits.queue, func(x *creditWaiter) bool { return x == w })
	select {
	case n, ok := <-w.got:
		if ok {
			c.credits.grantedLocked(n, n)
			return
		}
	default:
	}
	c.credits.grantedLocked(0, 0) // who is next may want less
}

// untake gives credits back that were taken and not sent.
func (c *conn) untake(n int) {
	c.mu.Lock()
	c.credits.grantedLocked(n, n)
	c.mu.Unlock()
}

// send sends requests in one message: the second and later ones are related to
// the first. Each of the results has to be waited for, or abandoned.
func (c *conn) send(ctx context.Context, parts ...part) ([]*pending, error) {
	total := 0
	for _, p := range parts {
		total += c.charge(p.payload)
	}
	if _, err := c.take(ctx, total, total); err != nil {
		return nil, err
	}
	return c.sendTaken(ctx, parts)
}

// sendTaken sends requests whose credits have been taken.
func (c *conn) sendTaken(ctx context.Context, parts []part) ([]*pending, error) {
	size, limit, charge := 1024, 0, 0
	for _, p := range parts {
		limit += p.payload + slack
		charge += c.charge(p.payload)
		if p.command == smbwire.CommandWrite {
			size += p.payload
		}
	}
	buf := c.bufs.get(size)
	defer func() { c.bufs.put(buf) }()
	buf.b = c.encode(buf.b[:0], parts)
	if len(buf.b)-smbwire.FrameHeaderSize > smbwire.MaxFrame {
		c.untake(charge)
		return nil, ntstatus.InvalidParameter
	}
	if err := c.turn(ctx); err != nil {
		c.untake(charge)
		return nil, err
	}
	defer func() { c.writing <- struct{}{} }()
	list, credits, err := c.enter(parts, limit)
	if err != nil {
		return nil, err
	}
	c.head(buf.b, parts, list, credits)
	if c.sent != nil {
		c.sent(buf.b[smbwire.FrameHeaderSize:])
	}
	if err := c.write(ctx, buf.b); err != nil {
		return nil, err
	}
	return list, nil
}

// turn waits for the turn to write. From then on ids can be given out: a gap in
// them would cost credits for ever.
func (c *conn) turn(ctx context.Context) error {
	select {
	case <-c.writing:
		return nil
	default:
	}
	select {
	case <-c.writing:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.down:
		return c.broken()
	}
}

// enter gives the requests their ids and expects answers; credits is what the
// first of them asks for more than its own.
func (c *conn) enter(parts []part, limit int) (list []*pending, credits uint16, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, 0, c.err
	}
	list = make([]*pending, len(parts))
	for i, p := range parts {
		w := &pending{
			command: p.command, id: c.nextID, treeID: p.treeID, charge: c.charge(p.payload),
			limit: limit, late: p.late, patient: p.patient, changes: p.changes, done: make(chan *response, 1),
		}
		c.nextID += uint64(w.charge)
		c.pending[w.id] = w
		list[i] = w
	}
	return list, c.credits.moreLocked(), nil
}

// encode appends the length word and the requests, with room for the headers.
// NextCommand is set in them already.
func (c *conn) encode(b []byte, parts []part) []byte {
	b = append(b, 0, 0, 0, 0)
	for i, p := range parts {
		start := len(b)
		b = (&smbwire.Header{}).AppendTo(b)
		b = p.body.AppendTo(b)
		if i < len(parts)-1 {
			b = smbwire.Chain(b, start)
		}
	}
	smbwire.PutFrameHeader(b, len(b)-smbwire.FrameHeaderSize)
	return b
}

// head writes the headers into what encode made, and signs if that is due.
func (c *conn) head(b []byte, parts []part, list []*pending, credits uint16) {
	b = b[smbwire.FrameHeaderSize:]
	for i, p := range parts {
		h, msg, more, err := smbwire.Next(b)
		if err != nil {
			panic("smbclient: " + err.Error()) // it is this side's own message
		}
		h.Command, h.MessageID, h.TreeID, h.SessionID = p.command, list[i].id, p.treeID, c.sessionID
		if i > 0 {
			h.Flags |= smbwire.FlagRelated
		}
		if c.largeMTU {
			h.CreditCharge = uint16(list[i].charge)
		}
		h.Credits = uint16(min(list[i].charge+int(credits), math.MaxUint16))
		credits = 0
		c.seal(&h, msg)
		b = more
	}
}

// signed reports whether requests and answers of a command are signed: those that
// protect the negotiation always are.
//
// Source: [MS-SMB2 3.2.4.1.1], [MS-SMB2 3.2.5.5]
func (c *conn) signed(command smbwire.Command) bool {
	return c.signer != nil && (c.mustSign || command == smbwire.CommandTreeConnect || command == smbwire.CommandIoctl)
}

// seal writes the header and the signature of msg.
func (c *conn) seal(h *smbwire.Header, msg []byte) {
	if c.signed(h.Command) {
		h.Flags |= smbwire.FlagSigned
	}
	h.Put(msg)
	if h.Flags&smbwire.FlagSigned != 0 {
		c.signer.Sign(msg)
	}
}

// write sends bytes; the caller has the turn. A server that does not take them is
// given up, since it cannot be told where the next message begins. If ctx ends
// meanwhile they are sent nevertheless, if that takes no longer than cancelGrace.
func (c *conn) write(ctx context.Context, b []byte) error {
	err := c.nc.SetWriteDeadline(time.Now().Add(c.timeout))
	if err == nil {
		stop := c.hurry(ctx)
		_, err = c.nc.Write(b)
		stop()
	}
	if err != nil {
		c.fail(err)
		return c.broken()
	}
	return nil
}

// hurry gives a Write cancelGrace to finish when ctx ends, until stop is called.
func (c *conn) hurry(ctx context.Context) (stop func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	done := make(chan struct{})
	prevent := context.AfterFunc(ctx, func() {
		_ = c.nc.SetWriteDeadline(time.Now().Add(cancelGrace)) // an error will be seen by Write
		close(done)
	})
	return func() {
		if !prevent() {
			<-done // later it would hurry somebody else
		}
	}
}
