package rdmaconn

import (
	"context"
	"errors"
	"fmt"
	"math"

	"lwio/internal/client/base"
	"lwio/internal/client/handshake"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
)

const (
	// ProtocolPage is the page size that this side announces, in bytes. [OP-28]
	ProtocolPage = 4096
	// samePages bounds the pages of one collapsed write: their number has 16 bits.
	samePages = math.MaxUint16
	// pointerSize is announced as Endian. [OP-13]
	pointerSize = 8
	// announcedSend is the MaxSendBufferSize that the client announces; nothing
	// depends on it. [OP-62]
	announcedSend = 8192 + wire.HeaderSize
	// maxServerSize bounds the size that the client accepts for one
	// request.
	maxServerSize = 1 << 30
)

// peerParams are the parameters of the server in AUTH.
type peerParams struct {
	sessionID [8]byte
	Keyed     bool
	MaxRead   int // bytes of one READ
	MaxWrite  int // bytes of one WRITE
	MaxSame   int // bytes of one collapsed VEC_WRITE, 0 for none
}

// Authenticate proves to the server that this side negotiated over the pipe, and
// checks the same of the server. The server's parameters arrive in a buffer of
// which only they can be written, and whose region is closed before any goroutine looks
// at it. prev is the connection that this one takes the place of, or nil; it is torn
// down.
//
// Source: [LWIO §Connection Authentication], [LWIO claim 12], [OP-44] to [OP-50j], [OP-49], [OP-112]
func (c *Conn) Authenticate(ctx context.Context, a *handshake.Association, prev *Conn, allowMD5 bool) error {
	if err := c.Enter(); err != nil {
		return err
	}
	defer c.Leave()
	room := make([]byte, wire.AuthBufferSize)
	mr, err := c.Adapter.RegisterMemory(ctx, room, rdma.AccessRemoteWrite)
	if err != nil {
		return err
	}
	defer mr.Close()
	s, err := c.Acquire(ctx, true)
	if err != nil {
		return err
	}
	auth, err := a.Auth(s.cookie(), c.clientParams(prev), mr.RemoteAddr(), allowMD5)
	if err != nil {
		return err
	}
	s.Kind = kindControl
	if err := c.post(s, &auth.Header, Payload{Copied: auth.Body}); err != nil {
		return err
	}
	ios, err := c.wait(ctx, s)
	if err != nil {
		return err
	}
	c.Release(s)
	if err := mr.Close(); err != nil {
		return err
	}
	switch {
	case ios.Status == uint32(ntstatus.AccessDenied):
		return fmt.Errorf("the server did not accept the key: %w", StatusError(ios.Status))
	case ios.Status != 0:
		return StatusError(ios.Status)
	}
	n, err := wire.AuthParamsLen(ios.Information)
	if err != nil {
		return base.ProtocolError("%v", err)
	}
	p, err := auth.Check(room[:n])
	if err != nil {
		return HandshakeError(err)
	}
	return c.adopt(&p, prev)
}

// clientParams describes this side.
func (c *Conn) clientParams(prev *Conn) *wire.AuthParams {
	p := &wire.AuthParams{
		RevID: wire.RevID, Endian: pointerSize, PageSize: ProtocolPage,
		MaxRdmaWindowSize: min(uint32(c.Cfg.Window), c.Info.MaxTransferLength),
		MaxSendBufferSize: announcedSend, MaxRecvBufferSize: wire.StatusResponseSize,
		HeaderSize: wire.HeaderSize, Credits: uint16(len(c.Table.Entries)),
	}
	if prev != nil {
		p.BaseSequence = uint16(prev.Queue.nextNumber())
		p.PreviousSessionID = &prev.Peer.sessionID
	}
	return p
}

// adopt keeps the limits and the credits of the server: its window bounds the data
// with one READ, as the client's bounds one RDMA write. It goes on with the numbers of
// the connection before.
//
// Source: [OP-6], [OP-21], [OP-60], [OP-61], [OP-61b], [OP-112]
func (c *Conn) adopt(p *wire.AuthParams, prev *Conn) error {
	most := int(min(c.Info.MaxTransferLength, maxServerSize))
	write := int(min(p.MaxRecvBufferSize, maxServerSize))
	if p.Keyed == nil {
		// A server that goes by the text alone has posted exactly that much for
		// header and data.
		write -= wire.HeaderSize
	}
	c.Peer = peerParams{
		sessionID: *p.SessionID, Keyed: p.Keyed != nil,
		MaxRead:  min(int(min(p.MaxRdmaWindowSize, maxServerSize)), c.Cfg.ReadSize, most),
		MaxWrite: min(write, most-wire.HeaderSize),
	}
	if c.Peer.MaxRead < 1 || c.Peer.MaxWrite < 1 {
		return base.ProtocolError("the server takes writes of %d bytes and reads of %d", c.Peer.MaxWrite, c.Peer.MaxRead)
	}
	c.Peer.MaxSame = maxSame(p, c.Peer.MaxWrite)
	c.Queue.seq = uint64(p.BaseSequence)
	if prev != nil {
		c.Queue.seq = prev.Queue.nextNumber() + 1
		c.Lineage, c.priorFirst = prev.Lineage, prev.firstNumber
		if p.PreviousSessionID == nil {
			c.Lineage++
		}
	}
	c.firstNumber = c.Queue.seq
	return c.Credits.granted(c, int(p.Credits))
}

// maxSame is the most that a collapsed write may have: whole pages, so that the next one
// goes on with the page's beginning. 0 says that this server takes none.
//
// Source: [LWIO §Vectored Write], [OP-76], [OP-78], [OP-79]
func maxSame(p *wire.AuthParams, maxWrite int) int {
	if !wire.PagesDivide(ProtocolPage, p.PageSize) || maxWrite < ProtocolPage {
		return 0
	}
	return ProtocolPage * int(min(p.MaxRdmaWindowSize/ProtocolPage, samePages))
}

// HandshakeError maps a fault of the peer to the errors of the client.
func HandshakeError(err error) error {
	var e *handshake.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Fault {
	case handshake.Off:
		return base.ErrLWIOOff
	case handshake.Spoofed:
		return fmt.Errorf("%w: %w", base.ErrSpoofed, e.Err)
	}
	return fmt.Errorf("%w: %w", base.ErrProtocol, e.Err)
}
