package smbclient

import (
	"context"
	"math"
	"slices"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// send sends requests in one message: the second and later ones are related to the first.
// The caller waits for each of the results, or abandons it.
func (c *conn) send(ctx context.Context, reqs ...request) ([]*pending, error) {
	total := 0
	for _, q := range reqs {
		total += c.agreed.charge(q.payload)
	}
	if _, err := c.credits.take(ctx, total, total); err != nil {
		return nil, unsent(err)
	}
	return c.sendTaken(ctx, reqs)
}

// sendTaken sends requests whose credits have been taken.
func (c *conn) sendTaken(ctx context.Context, reqs []request) ([]*pending, error) {
	e := c.encrypting()
	size, limit, charge := 1024, 0, 0
	for _, q := range reqs {
		limit += q.payload + slack
		charge += c.agreed.charge(q.payload)
		if q.command == smbwire.CommandWrite {
			size += q.payload
		}
	}
	buf := c.bufs.Get(size)
	defer buf.Free()
	head := e.headSize()
	buf.B = encode(buf.B[:0], head, reqs)
	if len(buf.B)-smbwire.FrameHeaderSize > smbwire.MaxFrame {
		c.credits.putBack(charge)
		return nil, ntstatus.InvalidParameter
	}
	if err := c.writer.acquire(ctx); err != nil {
		c.credits.putBack(charge)
		return nil, unsent(err)
	}
	defer c.writer.release()
	if c.end.over() {
		return nil, unsent(c.end.cause())
	}
	list := c.requests.add(reqs, c.agreed.charge, limit, e != nil)
	c.putHeaders(buf.B[head:], reqs, list, e != nil)
	if c.sent != nil {
		c.sent(buf.B[head:])
	}
	var err error
	if buf.B, err = e.encrypt(buf.B); err != nil {
		c.fail(err)
		return nil, c.end.cause()
	}
	if err := c.write(ctx, buf.B); err != nil {
		return nil, err
	}
	return list, nil
}

// write writes a message; an error ends the connection. A message without its end has not been sent: the
// server executes none of it. Precondition: the caller has the turn to write.
func (c *conn) write(ctx context.Context, b []byte) error {
	n, err := c.writer.write(ctx, b)
	if err == nil {
		return nil
	}
	if LeftByServer(err) {
		c.awaitReader()
	}
	c.fail(err)
	if n < len(b) {
		return unsent(c.end.cause())
	}
	return c.end.cause()
}

// lastReadTime bounds awaitReader.
const lastReadTime = time.Second

// awaitReader waits until the reader has taken the last messages of a server that has ended the connection:
// responses, and the announcement that no other request was begun.
func (c *conn) awaitReader() {
	late := time.NewTimer(lastReadTime)
	defer late.Stop()
	select {
	case <-c.end.down:
	case <-late.C:
	}
}

// encode appends head bytes, which begin with the transport's header, and the requests, with
// room for their headers, in which NextCommand is set.
func encode(b []byte, head int, reqs []request) []byte {
	b = slices.Grow(b, head)[:head]
	for i, q := range reqs {
		start := len(b)
		b = (&smbwire.Header{}).AppendTo(b)
		b = q.body.AppendTo(b)
		if i < len(reqs)-1 {
			b = smbwire.EndElement(b, start)
		}
	}
	smbwire.PutFrameHeader(b, len(b)-smbwire.FrameHeaderSize)
	return b
}

// putHeaders writes the headers of an encoded message, and signs where that is due. The
// first request asks for the credits that are missing.
func (c *conn) putHeaders(b []byte, reqs []request, list []*pending, encrypted bool) {
	missing, epoch := c.credits.missing(), c.renewal.epoch.Load()
	for i, q := range reqs {
		h, msg, more, err := smbwire.Next(b)
		if err != nil {
			panic("smbclient: " + err.Error()) // encode made the message
		}
		h.Command, h.MessageID, h.TreeID, h.SessionID = q.command, list[i].id, q.treeID, c.agreed.sessionID
		if i > 0 {
			h.Flags |= smbwire.FlagRelated
		}
		if q.replay {
			h.Flags |= smbwire.FlagReplay
		}
		if c.agreed.largeMTU {
			h.CreditCharge = uint16(list[i].charge)
		}
		h.Credits = uint16(min(list[i].charge+int(missing), math.MaxUint16))
		missing = 0
		list[i].epoch = epoch
		list[i].signature = c.agreed.finish(&h, msg, encrypted)
		b = more
	}
}
