package iwarp

import (
	"encoding/binary"
	"net"

	"lwio/rdma/iwarp/internal/frame"
)

// markedConn is a TCP connection in full operation with markers. It inserts markers into
// the written stream if the peer asked for them, removes them from the read stream if
// this side did, and changes the CRCs to match. Connections with markers are rare, so
// copies are acceptable.
//
// One goroutine writes whole frames; another one reads.
type markedConn struct {
	net.Conn
	send, receive bool

	sent frame.Marker // position in the written stream
	out  []byte

	took  frame.Marker // position in the read stream, after the frames in clean
	raw   []byte       // the bytes after them
	clean []byte       // frames without markers, not read yet
	spare []byte       // backs clean
	fault error        // the bytes after clean are not a frame
	chunk [16 << 10]byte
}

// withMarkers returns nc itself if neither side asked for markers.
func withMarkers(nc net.Conn, send, receive, crc bool) net.Conn {
	if !send && !receive {
		return nc
	}
	return &markedConn{Conn: nc, send: send, receive: receive, sent: frame.Marker{CRC: crc}, took: frame.Marker{CRC: crc}}
}

// CloseWrite half-closes the connection, if it supports that.
func (c *markedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return net.ErrClosed
}

// Write writes whole frames. It returns len(p) only if all bytes are written.
func (c *markedConn) Write(p []byte) (int, error) {
	if !c.send {
		return c.Conn.Write(p)
	}
	c.out = c.out[:0]
	for rest := p; len(rest) > 0; {
		n := frame.FPDUSize(int(binary.BigEndian.Uint16(rest)))
		c.out = c.sent.Mark(c.out, rest[:n])
		rest = rest[n:]
	}
	if n, err := c.Conn.Write(c.out); err != nil {
		return min(n, 1), err
	}
	return len(p), nil
}

// Read reads frames without their markers.
func (c *markedConn) Read(p []byte) (int, error) {
	if !c.receive {
		return c.Conn.Read(p)
	}
	for len(c.clean) == 0 {
		if c.fault != nil {
			return 0, c.fault
		}
		n, err := c.Conn.Read(c.chunk[:])
		c.raw = append(c.raw, c.chunk[:n]...)
		c.clean = c.spare[:0]
		c.fault = c.unmark()
		c.spare = c.clean
		if err != nil && len(c.clean) == 0 && c.fault == nil {
			return 0, err
		}
	}
	n := copy(p, c.clean)
	c.clean = c.clean[n:]
	return n, nil
}

// unmark moves the whole frames of raw to clean. A frame with a wrong CRC gets a wrong
// CRC there too.
func (c *markedConn) unmark() error {
	done := 0
	for {
		var size int
		var err error
		c.clean, size, err = c.took.Unmark(c.clean, c.raw[done:])
		if err != nil {
			return &violation{fault: frame.FaultFraming}
		}
		if size == 0 {
			c.raw = c.raw[:copy(c.raw, c.raw[done:])]
			return nil
		}
		done += size
	}
}
