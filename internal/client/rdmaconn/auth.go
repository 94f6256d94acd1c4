package rdmaconn

import (
	"context"
	"errors"
	"fmt"
	"math"

	"lwio/internal/client/base"
	"lwio/internal/client/handshake"
	"lwio/internal/ntstatus"
	"lwio/internal/seal"
	"lwio/internal/wire"
	"lwio/rdma"
)

const (
	// ProtocolPage is the page size that this side announces, in bytes. [OP-28]
	ProtocolPage = 4096
	// maxSamePages bounds the pages of one collapsed write: their number has 16 bits.
	maxSamePages = math.MaxUint16
	// pointerSize is announced as Endian. [OP-13]
	pointerSize = 8
	// announcedSend is the MaxSendBufferSize that the client announces. No code
	// depends on it. [OP-62]
	announcedSend = 8192 + wire.HeaderSize
	// maxServerSize bounds the size of one request that the client accepts from the server.
	maxServerSize = 1 << 30
)

// Limits bound one request, in bytes, and say which requests the server takes.
type Limits struct {
	Read          int // of one READ
	Write         int // of one WRITE
	Same          int // of one collapsed VEC_WRITE, 0 for none
	CopyThreshold int // of a READ that goes through the memory of the connection
	Gather        int // parts of memory that one WRITE is gathered from, not bytes

	// FileCalls: the server takes LOCK, UNLOCK, SYNC, SETSIZE and STAT.
	FileCalls bool
	// Names: the server takes LOOKUP, and registers directories.
	Names bool
}

// session has the results of AUTH other than the limits.
type session struct {
	sessionID   [8]byte
	keyed       bool
	firstNumber uint64 // the number of the first message after AUTH
	priorFirst  uint64 // firstNumber of the connection that this one replaced
}

// Authenticate proves to the server that this side negotiated over the pipe, and checks the
// server's proof. prev is the connection that this one replaces, or nil; it is torn down.
//
// Source: [LWIO §Connection Authentication], [LWIO claim 12], [OP-44] to [OP-50j], [OP-49], [OP-112]
func (c *Conn) Authenticate(ctx context.Context, a *handshake.Association, prev *Conn, allowMD5 bool) error {
	if err := c.Pin(); err != nil {
		return err
	}
	defer c.Unpin()
	x := authentication{conn: c, prev: prev}
	p, err := x.exchange(ctx, a, allowMD5)
	if err != nil {
		return err
	}
	return x.adopt(ctx, p)
}

// authentication is AUTH on a connection, from the parameters of this side to the limits of the server.
type authentication struct {
	conn *Conn
	prev *Conn // the connection that conn replaces, or nil
}

// exchange sends AUTH and returns the parameters of the server, after a check of its proof. They
// arrive in a region of their own, which is closed before they are inspected.
func (x authentication) exchange(ctx context.Context, a *handshake.Association, allowMD5 bool) (*wire.AuthParams, error) {
	c := x.conn
	room := make([]byte, wire.AuthBufferSize)
	mr, err := c.Adapter.RegisterMemory(ctx, room, rdma.AccessRemoteWrite)
	if err != nil {
		return nil, err
	}
	defer mr.Close()
	s, err := c.AwaitCredit(ctx)
	if err != nil {
		return nil, err
	}
	on := handshake.Connection{Fabric: c.Fabric}
	if on.PrivateData, err = c.connector.PrivateData(); err != nil {
		c.Release(s)
		return nil, err
	}
	auth, err := a.Auth(s.cookie(), x.params(), mr.RemoteAddr(), on, allowMD5 && !c.sealing.wanted)
	if err != nil {
		c.Release(s)
		return nil, err
	}
	if c.sealing.wanted {
		x.seal(auth)
	}
	ios, err := c.control(ctx, s, &auth.Header, auth.Body)
	if err != nil {
		return nil, err
	}
	if err := mr.Close(); err != nil {
		return nil, err
	}
	return x.check(auth, ios, room)
}

// check returns the parameters of the server from the answer to AUTH.
func (x authentication) check(auth *handshake.Auth, ios wire.IOStatusBlock, room []byte) (*wire.AuthParams, error) {
	switch {
	case ios.Status == uint32(ntstatus.AccessDenied):
		return nil, fmt.Errorf("the server did not accept the key: %w", StatusError(ios.Status))
	case ios.Status != 0:
		return nil, StatusError(ios.Status)
	}
	n, err := wire.AuthParamsLen(ios.Information)
	if err != nil {
		return nil, base.ProtocolError("%v", err)
	}
	p, err := auth.Check(room[:n])
	if err != nil {
		return nil, HandshakeError(err)
	}
	if x.conn.sealing.wanted && p.Seal != wire.SealAES128GCM {
		return nil, errNotSealed
	}
	return &p, nil
}

// seal makes the connection a sealed one, from the message after AUTH on.
func (x authentication) seal(auth *handshake.Auth) {
	c := x.conn
	c.progress.mu.Lock()
	defer c.progress.mu.Unlock()
	c.send.mu.Lock()
	defer c.send.mu.Unlock()
	c.sealing.begin(auth)
}

// params describes this side.
func (x authentication) params() *wire.AuthParams {
	c, prev := x.conn, x.prev
	p := &wire.AuthParams{
		RevID: wire.RevID, Endian: pointerSize, PageSize: ProtocolPage,
		MaxRdmaWindowSize: min(uint32(c.cfg.Window), c.info.MaxTransferLength),
		MaxSendBufferSize: announcedSend, MaxRecvBufferSize: wire.StatusResponseSize,
		HeaderSize: wire.HeaderSize, Credits: uint16(len(c.table.entries)),
	}
	p.Extensions = wire.FileCalls | wire.Names
	if c.sealing.wanted {
		p.Seal = wire.SealAES128GCM
	}
	if prev != nil {
		p.BaseSequence = uint16(prev.send.nextNumber())
		p.PreviousSessionID = &prev.sessionID
	}
	return p
}

// adopt keeps the limits and the credits of the server. The server's window bounds the data of one
// READ. The messages go on with the numbers of the connection before.
//
// Source: [OP-6], [OP-21], [OP-60], [OP-61], [OP-61b], [OP-112]
func (x authentication) adopt(ctx context.Context, p *wire.AuthParams) error {
	c, prev := x.conn, x.prev
	most := int(min(c.info.MaxTransferLength, maxServerSize))
	if c.sealing.wanted {
		most -= seal.Overhead
	}
	write := int(min(p.MaxRecvBufferSize, maxServerSize))
	if p.Keyed == nil {
		// A server that follows the text alone has posted exactly that size for header and data.
		write -= wire.HeaderSize
	}
	c.sessionID, c.keyed = *p.SessionID, p.Keyed != nil
	c.Limits = Limits{
		Read:          min(int(min(p.MaxRdmaWindowSize, maxServerSize)), c.cfg.ReadSize, most),
		Write:         min(write, most-wire.HeaderSize),
		CopyThreshold: c.cfg.CopyThreshold,
		Gather:        len(c.table.entries[0].sges) - 1,
		FileCalls:     p.Extensions&wire.FileCalls != 0,
		Names:         p.Extensions.Agreed()&wire.Names != 0,
	}
	if c.Limits.Read < 1 || c.Limits.Write < 1 {
		return base.ProtocolError("the server takes writes of %d bytes and reads of %d", c.Limits.Write, c.Limits.Read)
	}
	if c.sealing.wanted {
		if err := c.sealing.allocate(ctx, c.Adapter, c.table.entries, c.Limits.Write); err != nil {
			return err
		}
	}
	c.Limits.Same = maxSame(p, c.Limits.Write)
	c.send.seq = uint64(p.BaseSequence)
	if prev != nil {
		c.send.seq = prev.send.nextNumber() + 1
		c.Lineage, c.priorFirst = prev.Lineage, prev.firstNumber
		if p.PreviousSessionID == nil {
			c.Lineage++
		}
	}
	c.firstNumber = c.send.seq
	return c.credits.granted(int(p.Credits))
}

// maxSame is the longest collapsed write, in bytes. It has whole pages, so that the next write
// begins with the beginning of a page. 0 says that this server takes none.
//
// Source: [LWIO §Vectored Write], [OP-76], [OP-78], [OP-79]
func maxSame(p *wire.AuthParams, maxWrite int) int {
	if !wire.PagesDivide(ProtocolPage, p.PageSize) || maxWrite < ProtocolPage {
		return 0
	}
	return ProtocolPage * int(min(p.MaxRdmaWindowSize/ProtocolPage, maxSamePages))
}

// HandshakeError returns the client's error for a fault of the peer.
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
