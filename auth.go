package lwio

import (
	"context"
	"fmt"

	"lwio/internal/handshake"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
)

const (
	// protocolPage is the page size that this side announces, in bytes. [OP-28]
	protocolPage = 4096
	// pointerSize is what this side announces as Endian. [OP-13]
	pointerSize = 8
	// announcedSend is the MaxSendBufferSize that the client announces; nothing
	// depends on it. [OP-62]
	announcedSend = 8192 + wire.HeaderSize
	// maxServerSize bounds what the client believes a server takes or gives in one
	// request.
	maxServerSize = 1 << 30
)

// peerParams is what the server said of itself in AUTH.
type peerParams struct {
	sessionID [8]byte
	keyed     bool
	maxRead   int // bytes of one READ
	maxWrite  int // bytes of one WRITE
	maxSame   int // bytes of one collapsed VEC_WRITE, 0 for none
}

// authenticate proves to the server that this side negotiated over the pipe, and
// checks the same of the server. The server's parameters arrive in a buffer of
// which only they can be written, and whose region is closed before anybody looks
// at it. prev is the connection that this one takes the place of, or nil; it is torn
// down.
//
// Source: [LWIO §Connection Authentication], [LWIO claim 12], [OP-44] to [OP-50j], [OP-49], [OP-112]
func (c *conn) authenticate(ctx context.Context, a *handshake.Association, prev *conn, allowMD5 bool) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	room := make([]byte, wire.AuthBufferSize)
	mr, err := c.adapter.RegisterMemory(ctx, room, rdma.AccessRemoteWrite)
	if err != nil {
		return err
	}
	defer mr.Close()
	s, err := c.acquire(ctx, true)
	if err != nil {
		return err
	}
	auth, err := a.Auth(s.cookie(), c.clientParams(prev), mr.RemoteAddr(), allowMD5)
	if err != nil {
		return err
	}
	s.kind = kindControl
	if err := c.post(s, &auth.Header, payload{copied: auth.Body}); err != nil {
		return err
	}
	ios, err := c.wait(ctx, s)
	if err != nil {
		return err
	}
	c.release(s)
	if err := mr.Close(); err != nil {
		return err
	}
	switch {
	case ios.Status == uint32(ntstatus.AccessDenied):
		return fmt.Errorf("the server did not accept the key: %w", statusError(ios.Status))
	case ios.Status != 0:
		return statusError(ios.Status)
	}
	n, err := wire.AuthParamsLen(ios.Information)
	if err != nil {
		return protocolError("%v", err)
	}
	p, err := auth.Check(room[:n])
	if err != nil {
		return handshakeError(err)
	}
	return c.adopt(&p, prev)
}

// clientParams describes this side.
func (c *conn) clientParams(prev *conn) *wire.AuthParams {
	p := &wire.AuthParams{
		RevID: wire.RevID, Endian: pointerSize, PageSize: protocolPage,
		MaxRdmaWindowSize: min(uint32(c.cfg.window), c.info.MaxTransferLength),
		MaxSendBufferSize: announcedSend, MaxRecvBufferSize: wire.StatusResponseSize,
		HeaderSize: wire.HeaderSize, Credits: uint16(len(c.slots)),
	}
	if prev != nil {
		p.BaseSequence = uint16(prev.nextNumber())
		p.PreviousSessionID = &prev.peer.sessionID
	}
	return p
}

// adopt keeps the limits and the credits of the server: its window bounds what it gives
// with one READ, as the client's bounds one RDMA write. It goes on with the numbers of
// the connection before.
//
// Source: [OP-6], [OP-21], [OP-60], [OP-61], [OP-61b], [OP-112]
func (c *conn) adopt(p *wire.AuthParams, prev *conn) error {
	most := int(min(c.info.MaxTransferLength, maxServerSize))
	write := int(min(p.MaxRecvBufferSize, maxServerSize))
	if p.Keyed == nil {
		// A server that goes by the text alone has posted exactly that much for
		// header and data.
		write -= wire.HeaderSize
	}
	c.peer = peerParams{
		sessionID: *p.SessionID, keyed: p.Keyed != nil,
		maxRead:  min(int(min(p.MaxRdmaWindowSize, maxServerSize)), c.cfg.readSize, most),
		maxWrite: min(write, most-wire.HeaderSize),
	}
	if c.peer.maxRead < 1 || c.peer.maxWrite < 1 {
		return protocolError("the server takes writes of %d bytes and reads of %d", c.peer.maxWrite, c.peer.maxRead)
	}
	c.peer.maxSame = maxSame(p, c.peer.maxWrite)
	c.seq = uint64(p.BaseSequence)
	if prev != nil {
		c.seq = prev.nextNumber() + 1
		c.lineage, c.recent = prev.lineage, prev.first
		if p.PreviousSessionID == nil {
			c.lineage++
		}
	}
	c.first = c.seq
	return c.credits.granted(c, int(p.Credits))
}
