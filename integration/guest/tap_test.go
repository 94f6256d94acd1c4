package guest_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net"
	"sync"
	"testing"

	"lwio/rdma/iwarp"
)

// Bits of MPA's start-up frames: in the flags, and in the two numbers of revision 2 behind
// the header of 20 bytes.
//
// Source: [RFC 5044 §7.1.1], [RFC 6581 §9]
const (
	flagMarkers = 0x80
	flagCRC     = 0x40
	peerToPeer  = 0x8000 // of the first number
	rtrWrite    = 0x8000 // of the second
	rtrRead     = 0x4000 // of the second
)

// frame is the start-up frame of one side, the first bytes that it sent.
type frame []byte

func (f frame) flags() byte    { return f.at(16) }
func (f frame) revision() byte { return f.at(17) }

func (f frame) at(i int) byte {
	if len(f) <= i {
		return 0
	}
	return f[i]
}

// numbers are the two numbers of revision 2, with their flags.
func (f frame) numbers() (inbound, outbound uint16) {
	if len(f) < 24 {
		return 0, 0
	}
	return binary.BigEndian.Uint16(f[20:]), binary.BigEndian.Uint16(f[22:])
}

// tap is between the provider and TCP. It records both start-up frames. It can change the
// start-up frame of the provider, and flip a bit of the frame after it.
type tap struct {
	edit func(sent []byte)
	flip bool

	mu             sync.Mutex
	sent, received frame
	stream         []byte // the first maxStream bytes that came
}

const maxStream = 1 << 20

// into makes a provider use the tap for its next connection.
func (p *tap) into(cfg *iwarp.Config) {
	cfg.Dial = func(ctx context.Context, _, remote *net.TCPAddr) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", remote.String())
		return &tapped{Conn: c, tap: p}, err
	}
	cfg.Listen = func(ctx context.Context, local *net.TCPAddr) (net.Listener, error) {
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", local.String())
		return &tappedListener{l, p}, err
	}
}

// again resets the tap for another connection.
func (p *tap) again() *tap { return &tap{edit: p.edit, flip: p.flip} }

func (p *tap) frames() (sent, received frame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent, p.received
}

type tappedListener struct {
	net.Listener
	tap *tap
}

func (l *tappedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &tapped{Conn: c, tap: l.tap}, nil
}

type tapped struct {
	net.Conn
	tap *tap
}

func (c *tapped) Write(b []byte) (int, error) {
	c.tap.mu.Lock()
	if len(c.tap.sent) == 0 {
		if c.tap.edit != nil {
			c.tap.edit(b)
		}
		c.tap.sent = append(frame(nil), b...)
	} else if c.tap.flip {
		c.tap.flip = false
		b = append([]byte(nil), b...)
		b[len(b)-8] ^= 1
	}
	c.tap.mu.Unlock()
	return c.Conn.Write(b)
}

func (c *tapped) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.tap.mu.Lock()
	if len(c.tap.received) < 24 {
		c.tap.received = append(c.tap.received, b[:n]...)
	}
	if room := maxStream - len(c.tap.stream); room > 0 {
		c.tap.stream = append(c.tap.stream, b[:min(n, room)]...)
	}
	c.tap.mu.Unlock()
	return n, err
}

// clearBits is an edit of a request: it clears bits of the two numbers.
func clearBits(inbound, outbound uint16) func([]byte) {
	return func(b []byte) {
		for i, bits := range []uint16{inbound, outbound} {
			n := b[20+2*i:]
			binary.BigEndian.PutUint16(n, binary.BigEndian.Uint16(n)&^bits)
		}
	}
}

// audit checks the CRCs of the captured bytes with code of its own. A frame that is wrong
// here arrived wrong; a frame that is right here was damaged by our side.
//
// Source: [RFC 5044 §4.4]
func (p *tap) audit() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.stream) < 20 {
		return "no start-up frame came"
	}
	at := 20 + int(binary.BigEndian.Uint16(p.stream[18:]))
	for frames := 0; ; frames++ {
		if at+2 > len(p.stream) {
			return fmt.Sprintf("%d good frames came", frames)
		}
		end := at + (2+int(binary.BigEndian.Uint16(p.stream[at:]))+3)&^3
		if end+4 > len(p.stream) {
			return fmt.Sprintf("%d good frames came, and part of one", frames)
		}
		got := binary.LittleEndian.Uint32(p.stream[end:])
		if want := crc32.Checksum(p.stream[at:end], crc32.MakeTable(crc32.Castagnoli)); got != want {
			return fmt.Sprintf("frame %d came with CRC %08x instead of %08x, at byte %d: %x", frames, got, want, at, p.stream[at:end+4])
		}
		at = end + 4
	}
}

// wantCRC checks that a connection has CRCs, or has none.
func (p *tap) wantCRC(t *testing.T, want bool) {
	t.Helper()
	sent, received := p.frames()
	if got := (sent.flags()|received.flags())&flagCRC != 0; got != want {
		t.Errorf("CRC is %v, want %v: sent %x, received %x", got, want, sent, received)
	}
}
