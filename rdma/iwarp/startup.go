package iwarp

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/iwarp/internal/frame"
)

// limitStartup bounds the start-up of a connection. Call it before softrdma.Exchange.
func limitStartup(nc net.Conn, read, write time.Duration) {
	now := time.Now()
	_ = nc.SetReadDeadline(now.Add(read))
	_ = nc.SetWriteDeadline(now.Add(write))
}

// readStartup reads one start-up frame. The active side may send nothing after its
// request before it has a reply, so bytes after a request are an error. The passive side
// may not send before it has received a frame. Some peers do so directly after their
// reply. That does no harm: readStartup reads no byte after a reply.
//
// Source: [RFC 5044 §7.1.2 rules 4 to 10]
func readStartup(nc net.Conn, reply bool) (frame.Startup, error) {
	var b [frame.MaxStartupSize + 1]byte
	most := len(b)
	if reply {
		most = frame.StartupHeaderSize
	}
	have, err := io.ReadAtLeast(nc, b[:most], frame.StartupHeaderSize)
	if err != nil {
		return frame.Startup{}, err
	}
	n, err := frame.StartupSize(b[:frame.StartupHeaderSize], reply)
	if err != nil {
		return frame.Startup{}, err
	}
	if reply {
		most = n
	}
	if have < n {
		more, err := io.ReadAtLeast(nc, b[have:most], n-have)
		if err != nil {
			return frame.Startup{}, err
		}
		have += more
	}
	if have > n {
		return frame.Startup{}, frame.ErrStartupLength
	}
	return frame.DecodeStartup(bytes.Clone(b[:n]), reply)
}

// writeStartup writes one start-up frame.
func writeStartup(nc net.Conn, s *frame.Startup) error {
	_, err := nc.Write(s.AppendTo(make([]byte, 0, frame.MaxStartupSize)))
	return err
}

// newRequest returns the request that opens a connection with the given revision.
//
// Source: [RFC 6581 §9.1]
func newRequest(cfg *Config, revision uint8, limits rdma.ReadLimits, private []byte) *frame.Startup {
	s := &frame.Startup{Revision: revision, Markers: cfg.Markers, CRC: cfg.CRC != CRCOff, Private: private}
	if revision == 2 {
		s.Enhanced = &frame.Enhanced{
			PeerToPeer: true,
			RTRWrite:   true,
			RTRSend:    true,
			RTRRead:    clipDepth(limits.Outbound) > 0,
			Inbound:    clipDepth(limits.Inbound),
			Outbound:   clipDepth(limits.Outbound),
		}
	}
	return s
}

// newReply returns the answer to a request. Among the offered kinds of ready-to-receive
// messages this side prefers a Write, then a Send, then a Read. For a Read it must grant
// one read.
//
// Source: [RFC 6581 §9.1], [RFC 6581 §9.2]
func newReply(cfg *Config, req *frame.Startup, limits rdma.ReadLimits, private []byte) *frame.Startup {
	s := &frame.Startup{
		Reply: true, Revision: req.Revision, Private: private, Markers: cfg.Markers,
		CRC: req.CRC || cfg.CRC != CRCOff,
	}
	if e := req.Enhanced; e != nil {
		byRead := e.PeerToPeer && !e.RTRWrite && !e.RTRSend && e.RTRRead && e.Outbound > 0
		s.Enhanced = &frame.Enhanced{
			PeerToPeer: e.PeerToPeer,
			RTRWrite:   e.PeerToPeer && (e.RTRWrite || !e.RTRSend && !byRead),
			RTRSend:    e.PeerToPeer && !e.RTRWrite && e.RTRSend,
			Inbound:    answerDepth(e.Outbound, limits.Inbound),
			Outbound:   answerDepth(e.Inbound, limits.Outbound),
		}
		if byRead {
			s.Enhanced.RTRRead, s.Enhanced.Inbound = true, max(s.Enhanced.Inbound, 1)
		}
	}
	return s
}

// clipDepth returns the number of reads that this provider may offer.
func clipDepth(n int) uint16 { return uint16(min(max(n, 0), maxReads)) }

// answerDepth returns the number of reads that this side grants. peer is the number that
// the peer offers.
func answerDepth(peer uint16, own int) uint16 {
	if peer == frame.DepthUnnegotiated {
		return frame.DepthUnnegotiated
	}
	return min(peer, clipDepth(own))
}

// peerLimits returns the peer's read limits as this side sees them, clipped.
func peerLimits(e *frame.Enhanced) rdma.ReadLimits {
	if e == nil {
		return rdma.ReadLimits{}
	}
	return rdma.ReadLimits{Inbound: min(int(e.Outbound), maxReads), Outbound: min(int(e.Inbound), maxReads)}
}

// finalLimits returns the numbers of reads in progress that this side answers and begins
// on the connection. own and peer are the data in the frames of both sides. If a frame
// has no number, or does not negotiate it, the program's limit applies.
//
// Source: [RFC 6581 §9.1]
func finalLimits(own, peer *frame.Enhanced, limits rdma.ReadLimits) rdma.ReadLimits {
	final := rdma.ReadLimits{Inbound: int(clipDepth(limits.Inbound)), Outbound: int(clipDepth(limits.Outbound))}
	if own == nil || peer == nil {
		return final
	}
	if own.Inbound != frame.DepthUnnegotiated && peer.Outbound != frame.DepthUnnegotiated {
		final.Inbound = int(min(own.Inbound, peer.Outbound))
	}
	if own.Outbound != frame.DepthUnnegotiated && peer.Inbound != frame.DepthUnnegotiated {
		final.Outbound = int(min(own.Outbound, peer.Inbound))
	}
	return final
}

// grantedLimits returns the final limits of the passive side. They always admit a Read
// that is the ready-to-receive message.
func grantedLimits(reply, req *frame.Startup, limits rdma.ReadLimits) rdma.ReadLimits {
	final := finalLimits(reply.Enhanced, req.Enhanced, limits)
	if reply.Enhanced != nil && reply.Enhanced.RTRRead {
		final.Inbound = max(final.Inbound, 1)
	}
	return final
}

// readyKind is a kind of ready-to-receive message.
type readyKind uint8

const (
	readyNone readyKind = iota
	readyWrite
	readySend
	readyRead
)

// readyFor returns the kind of the ready-to-receive message of the active side, given the
// reply: a zero-length Write, Send or Read that the request offered.
//
// Source: [RFC 6581 §9.2]
func readyFor(req, reply *frame.Enhanced) readyKind {
	switch {
	case reply.RTRWrite && req.RTRWrite:
		return readyWrite
	case reply.RTRSend && req.RTRSend:
		return readySend
	case reply.RTRRead && req.RTRRead && reply.Inbound > 0:
		return readyRead
	}
	return readyNone
}

// readyMessage returns the frame of a ready-to-receive message and counts it in the state
// of the connection.
func (c *conn) readyMessage(kind readyKind) []byte {
	var ulpdu []byte
	switch kind {
	case readyWrite:
		h := frame.TaggedSegment(frame.OpWrite, 0, 0, true)
		ulpdu = h.AppendTo(nil)
	case readySend:
		h := frame.UntaggedSegment(frame.OpSend, frame.QueueSend, 1, 0, true)
		ulpdu = h.AppendTo(nil)
		c.tx.framer.msn++
	case readyRead:
		h := frame.UntaggedSegment(frame.OpReadRequest, frame.QueueRequest, 1, 0, true)
		q := c.qp.reads.ask(nil, c.a.Domain.Keys.Uint64())
		ulpdu = q.AppendTo(h.AppendTo(nil))
		c.tx.framer.readMSN++
	default:
		return nil
	}
	return frame.AppendFPDU(nil, ulpdu, c.crc)
}

// tcpAddr converts an address of the fabric to a TCP address.
func (a *adapter) tcpAddr(op string, addr rdma.Addr) (*net.TCPAddr, error) {
	ap := addr.AddrPort
	if addr.Fabric != "" && addr.Fabric != Name || addr.Name != "" {
		return nil, opError(op, addr.String(), rdma.StatusInvalidAddress, errors.New("address of another fabric"))
	}
	ip := ap.Addr().Unmap()
	own := a.local.IsValid() && !a.local.IsUnspecified()
	switch {
	case own && (!ip.IsValid() || ip.IsUnspecified()):
		ip = a.local
	case own && ip != a.local:
		return nil, opError(op, addr.String(), rdma.StatusInvalidAddress, errors.New("not an address of the adapter"))
	case !ip.IsValid():
		ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, ap.Port())), nil
}

// fabricAddr converts a TCP address to an address of the fabric.
func fabricAddr(a net.Addr) rdma.Addr {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return rdma.Addr{Fabric: Name}
	}
	ap := t.AddrPort()
	return rdma.IPAddr(Name, netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()))
}

// endsOf returns the addresses of a TCP connection.
func endsOf(nc net.Conn) softrdma.Ends {
	return softrdma.Ends{Local: fabricAddr(nc.LocalAddr()), Peer: fabricAddr(nc.RemoteAddr())}
}

// paramsOf returns the parameters in a peer's frame.
func paramsOf(s *frame.Startup) *softrdma.PeerParams {
	return &softrdma.PeerParams{Private: s.Private, Limits: peerLimits(s.Enhanced)}
}

// hangUp closes a connection that is not in full operation, in order: the peer receives
// all sent bytes.
func (a *adapter) hangUp(nc net.Conn) {
	a.drainUntilClosed(nc, func() bool {
		half, ok := nc.(interface{ CloseWrite() error })
		return ok && half.CloseWrite() == nil
	})
}

// drain waits for the peer's close after a rejection. The peer may close the connection
// first.
//
// Source: [RFC 5044 §7.1.2 rule 2]
func (a *adapter) drain(nc net.Conn) { a.drainUntilClosed(nc, func() bool { return true }) }

// drainUntilClosed waits in the background until the peer has closed a connection.
// DrainTimeout bounds the time, MaxStartups the number of connections.
//
// Source: [RFC 5042 §6.4]
func (a *adapter) drainUntilClosed(nc net.Conn, begin func() bool) {
	if a.draining.Add(1) > int64(a.p.cfg.MaxStartups) {
		a.draining.Add(-1)
		nc.Close()
		return
	}
	a.Domain.Background(func() {
		defer a.draining.Add(-1)
		defer nc.Close()
		_ = nc.SetDeadline(time.Now().Add(a.p.cfg.DrainTimeout))
		if begin() {
			_, _ = io.Copy(io.Discard, nc)
		}
	})
}
