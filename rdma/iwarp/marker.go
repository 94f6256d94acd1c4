package iwarp

import (
	"encoding/binary"
	"hash/crc32"
	"net"
)

// Markers stand at every markerSpacing-th byte of a stream in full operation.
//
// Source: [RFC 5044 §4.3]
const (
	markerSpacing = 512
	markerSize    = 4
)

// markedConn is a TCP connection in full operation with markers: those that the
// peer asked for go into what is written, and those that this side asked for are
// taken out of what is read, with the CRCs changed to match. Connections with
// markers are rare, so that this costs copies.
//
// Write must get whole frames, from one goroutine; Read has another.
type markedConn struct {
	net.Conn
	send, receive, crc bool

	sent uint64 // bytes of the stream written, markers included
	out  []byte

	took  uint64 // bytes of the stream whose frames are in clean
	raw   []byte // what comes after them
	clean []byte // frames without markers, not read yet
	spare []byte // of clean
	fault error  // what follows clean is no frame
	chunk [16 << 10]byte
}

// withMarkers is nc itself if neither side asked for markers.
func withMarkers(nc net.Conn, send, receive, crc bool) net.Conn {
	if !send && !receive {
		return nc
	}
	return &markedConn{Conn: nc, send: send, receive: receive, crc: crc}
}

// CloseWrite half-closes the connection where it can be.
func (c *markedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return net.ErrClosed
}

// Write writes whole frames. What it returns counts bytes of p only if all are
// written.
func (c *markedConn) Write(p []byte) (int, error) {
	if !c.send {
		return c.Conn.Write(p)
	}
	c.out = c.out[:0]
	for rest := p; len(rest) > 0; {
		n := fpduSize(int(binary.BigEndian.Uint16(rest)))
		c.out = c.mark(c.out, rest[:n])
		rest = rest[n:]
	}
	if n, err := c.Conn.Write(c.out); err != nil {
		return min(n, 1), err
	}
	return len(p), nil
}

// mark appends a frame with markers and a CRC that covers them.
//
// Source: [RFC 5044 §4.3], [RFC 5044 §4.4]
func (c *markedConn) mark(b, fpdu []byte) []byte {
	start := len(b)
	header := -1 // where the frame's length is
	for len(fpdu) > 0 {
		if c.sent%markerSpacing == 0 {
			distance := 0
			if header >= 0 {
				distance = len(b) - header
			}
			b = binary.BigEndian.AppendUint32(b, uint32(distance))
			c.sent += markerSize
		}
		if header < 0 {
			header = len(b)
		}
		n := min(len(fpdu), markerSpacing-int(c.sent%markerSpacing))
		if len(fpdu) > crcSize {
			n = min(n, len(fpdu)-crcSize)
		} else if c.crc {
			b = appendCRC(b, crc32.Checksum(b[start:], castagnoli))
			c.sent += crcSize
			break
		}
		b = append(b, fpdu[:n]...)
		fpdu = fpdu[n:]
		c.sent += uint64(n)
	}
	return b
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

// unmark moves the whole frames of raw to clean. A frame with a wrong CRC gets a
// wrong one there too.
func (c *markedConn) unmark() error {
	done := 0
	for {
		size, err := c.unmarkOne(c.raw[done:])
		if err != nil {
			return err
		}
		if size == 0 {
			c.raw = c.raw[:copy(c.raw, c.raw[done:])]
			return nil
		}
		done += size
		c.took += uint64(size)
	}
}

// unmarkOne takes the first frame of b, and says how much of b that was; 0 if it
// is not all there.
//
// Source: [RFC 5044 §4.3], [RFC 5044 §8]
func (c *markedConn) unmarkOne(b []byte) (int, error) {
	start, at, header, need := len(c.clean), 0, -1, fpduHeaderSize
	for left := need; left > 0; {
		if (c.took+uint64(at))%markerSpacing == 0 {
			if len(b) < at+markerSize {
				c.clean = c.clean[:start]
				return 0, nil
			}
			distance := 0
			if header >= 0 {
				distance = at - header
			}
			if int(binary.BigEndian.Uint16(b[at+2:])) != distance {
				c.clean = c.clean[:start]
				return 0, &violation{fault: faultFraming}
			}
			at += markerSize
		}
		if header < 0 {
			header = at
		}
		n := min(left, markerSpacing-int((c.took+uint64(at))%markerSpacing))
		if len(b) < at+n {
			c.clean = c.clean[:start]
			return 0, nil
		}
		c.clean = append(c.clean, b[at:at+n]...)
		at, left = at+n, left-n
		if need == fpduHeaderSize && left == 0 {
			need = fpduSize(int(binary.BigEndian.Uint16(c.clean[start:])))
			left = need - fpduHeaderSize
		}
	}
	if end := len(c.clean) - crcSize; c.crc {
		sum := crc32.Checksum(c.clean[start:end], castagnoli)
		if !checkFPDU(b[:at]) {
			sum = ^sum
		}
		binary.LittleEndian.PutUint32(c.clean[end:], sum)
	}
	return at, nil
}
