package iwarp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"lwio/rdma"
)

// limitStartup bounds the start-up of a connection. It comes before watch, whose
// deadline must be the last.
func limitStartup(nc net.Conn, read, write time.Duration) {
	now := time.Now()
	_ = nc.SetReadDeadline(now.Add(read))
	_ = nc.SetWriteDeadline(now.Add(write))
}

// readStartup reads one start-up frame, and no byte more.
//
// Source: [RFC 5044 §7.1.2 rules 5 to 9]
func readStartup(nc net.Conn, reply bool) (startup, error) {
	var header [startupHeaderSize]byte
	if _, err := io.ReadFull(nc, header[:]); err != nil {
		return startup{}, err
	}
	s, n, err := decodeStartupHeader(header[:], reply)
	if err != nil {
		return startup{}, err
	}
	private := make([]byte, n)
	if _, err := io.ReadFull(nc, private); err != nil {
		return startup{}, err
	}
	s.setPrivate(private)
	return s, nil
}

// writeStartup writes one start-up frame.
func writeStartup(nc net.Conn, s *startup) error {
	_, err := nc.Write(s.appendTo(make([]byte, 0, maxStartupSize)))
	return err
}

// watch makes ctx's end wake whoever waits for nc; the function that it returns
// ends that.
func watch(ctx context.Context, nc net.Conn) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = nc.SetDeadline(longAgo) })
}

// newRequest is the request that opens a connection with a revision.
//
// Source: [RFC 6581 §9.2]
func newRequest(cfg *Config, revision uint8, limits rdma.ReadLimits, private []byte) *startup {
	s := &startup{revision: revision, crc: cfg.CRC != CRCOff, private: private}
	if revision == 2 {
		s.enhanced = &enhancedData{
			peerToPeer: true,
			rtrWrite:   true,
			inbound:    clipDepth(limits.Inbound),
			outbound:   clipDepth(limits.Outbound),
		}
	}
	return s
}

// newReply is the answer to a request. Of the kinds of ready-to-receive messages
// this side takes a Write, or else a Send; for a Read it would have to answer.
//
// Source: [RFC 6581 §9.2], [RFC 6581 §9.3]
func newReply(cfg *Config, req *startup, limits rdma.ReadLimits, private []byte) *startup {
	s := &startup{
		reply: true, revision: req.revision, private: private,
		crc: req.crc || cfg.CRC != CRCOff,
	}
	if e := req.enhanced; e != nil {
		s.enhanced = &enhancedData{
			peerToPeer: e.peerToPeer,
			rtrWrite:   e.peerToPeer && (e.rtrWrite || !e.rtrSend),
			rtrSend:    e.peerToPeer && !e.rtrWrite && e.rtrSend,
			inbound:    answerDepth(e.outbound, limits.Inbound),
			outbound:   answerDepth(e.inbound, limits.Outbound),
		}
	}
	return s
}

// clipDepth is a number of reads as this provider may offer it.
func clipDepth(n int) uint16 { return uint16(min(max(n, 0), maxReads)) }

// answerDepth is what this side grants of what the peer asked or offered.
func answerDepth(peer uint16, own int) uint16 {
	if peer == depthUnnegotiated {
		return depthUnnegotiated
	}
	return min(peer, clipDepth(own))
}

// peerLimits are the peer's wishes as this side sees them, clipped.
func peerLimits(e *enhancedData) rdma.ReadLimits {
	if e == nil {
		return rdma.ReadLimits{}
	}
	return rdma.ReadLimits{Inbound: min(int(e.outbound), maxReads), Outbound: min(int(e.inbound), maxReads)}
}

// readyMessage is the frame that tells the passive side that the active one is
// ready: a zero-length Write, or a zero-length Send. sends says how many messages
// of queue 0 it takes.
//
// Source: [RFC 6581 §9.3]
func readyMessage(e *enhancedData, crc bool) (frame []byte, sends uint32, ok bool) {
	switch {
	case e.rtrWrite:
		h := taggedSegment(opWrite, 0, 0, true)
		return appendFPDU(nil, h.appendTo(nil), crc), 0, true
	case e.rtrSend:
		h := untaggedSegment(opSend, queueSend, 1, 0, true)
		return appendFPDU(nil, h.appendTo(nil), crc), 1, true
	}
	return nil, 0, false
}

// tcpAddr turns an address of the fabric into one of TCP.
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

// fabricAddr turns an address of TCP into one of the fabric.
func fabricAddr(a net.Addr) rdma.Addr {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return rdma.Addr{Fabric: Name}
	}
	ap := t.AddrPort()
	return rdma.IPAddr(Name, netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()))
}

// hangUp closes a connection that is not in full operation in good order: the
// peer gets what was sent.
func (a *adapter) hangUp(nc net.Conn) {
	a.background(func() {
		defer nc.Close()
		_ = nc.SetDeadline(time.Now().Add(a.p.cfg.DrainTimeout))
		half, ok := nc.(interface{ CloseWrite() error })
		if ok && half.CloseWrite() == nil {
			_, _ = io.Copy(io.Discard, nc)
		}
	})
}
