package iwarp

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"lwio/rdma"
	"lwio/rdma/iwarp/internal/frame"
)

// rawPeer is a peer that sends and receives bytes.
type rawPeer struct {
	t   testing.TB
	nc  net.Conn
	crc bool
}

var errWrongCRC = errors.New("wrong CRC")

// testTimeout bounds the waits of tests.
const testTimeout = time.Minute

func newRawPeer(t testing.TB, nc net.Conn) *rawPeer {
	t.Cleanup(func() { nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	return &rawPeer{t: t, nc: nc}
}

// listenSide makes a side that listens, and returns its address.
func listenSide(t testing.TB, cfg *Config, s shape) (*side, rdma.Listener, rdma.Addr) {
	t.Helper()
	server := newSide(t, cfg, s)
	l, err := rdma.Listen(context.Background(), server.a, rdma.IPAddr(Name, netip.AddrPortFrom(loopback, 0)), 0)
	if err != nil {
		t.Fatal(err)
	}
	addr, err := l.LocalAddr()
	if err != nil {
		t.Fatal(err)
	}
	return server, l, addr
}

func dialRaw(t testing.TB, addr rdma.Addr) *rawPeer {
	t.Helper()
	nc, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	return newRawPeer(t, nc)
}

// serveRaw connects a raw peer to a new side with the given request. It returns when the
// side has sent its reply.
func serveRaw(t testing.TB, cfg *Config, req *frame.Startup) (*side, *rawPeer, <-chan error) {
	t.Helper()
	server, l, addr := listenSide(t, cfg, shape{depth: 8, sge: 2, buf: 64 << 10, context: 7})
	p := dialRaw(t, addr)
	accepted := make(chan error, 1)
	go func() {
		err := l.ConnectionRequest(context.Background(), server.con)
		if err == nil {
			err = server.con.Accept(context.Background(), server.qp, rdma.ReadLimits{}, nil)
		}
		accepted <- err
	}()
	p.send(req.AppendTo(nil))
	reply, err := readStartup(p.nc, true)
	if err != nil {
		t.Fatal(err)
	}
	p.crc = reply.CRC
	return server, p, accepted
}

// connectRaw connects a raw peer in full operation.
func connectRaw(t testing.TB, crc CRCPolicy) (*side, *rawPeer) {
	t.Helper()
	return connectRawTo(t, &Config{CRC: crc})
}

// connectRawTo connects a raw peer to a side with any config.
func connectRawTo(t testing.TB, cfg *Config) (*side, *rawPeer) {
	t.Helper()
	server, p, accepted := serveRaw(t, cfg, &frame.Startup{
		Revision: 2, Enhanced: &frame.Enhanced{PeerToPeer: true, RTRWrite: true},
	})
	h := frame.TaggedSegment(frame.OpWrite, 0, 0, true)
	p.fpdu(h, nil)
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	return server, p
}

func (p *rawPeer) send(b []byte) {
	p.t.Helper()
	raceRelease() // readers see the earlier steps of the test
	if _, err := p.nc.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

// fpdu sends a segment in a frame.
func (p *rawPeer) fpdu(s frame.Segment, payload []byte) { p.t.Helper(); p.send(p.frame(s, payload)) }

func (p *rawPeer) frame(s frame.Segment, payload []byte) []byte {
	return frame.AppendFPDU(nil, append(s.AppendTo(nil), payload...), p.crc)
}

// receive reads one frame.
func (p *rawPeer) receive() (frame.Segment, []byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(p.nc, length[:]); err != nil {
		return frame.Segment{}, nil, err
	}
	fpdu := make([]byte, frame.FPDUSize(int(binary.BigEndian.Uint16(length[:]))))
	copy(fpdu, length[:])
	if _, err := io.ReadFull(p.nc, fpdu[2:]); err != nil {
		return frame.Segment{}, nil, err
	}
	if p.crc && !frame.CheckFPDU(fpdu) {
		return frame.Segment{}, nil, errWrongCRC
	}
	ulpdu := fpdu[frame.FPDUHeaderSize:][:binary.BigEndian.Uint16(length[:])]
	var s frame.Segment
	err := s.Decode(ulpdu)
	return s, ulpdu[s.Size():], err
}

// wantTerminate reads a Terminate and the end of the stream.
func (p *rawPeer) wantTerminate() []byte {
	p.t.Helper()
	s, payload, err := p.receive()
	if err != nil {
		p.t.Fatalf("no Terminate: %v", err)
	}
	if want := frame.UntaggedSegment(frame.OpTerminate, frame.QueueTerminate, 1, 0, true); s != want {
		p.t.Fatalf("header %+v, want that of a Terminate", s)
	}
	p.wantEnd()
	return payload
}

// wantEnd expects that the peer half-closes in order, and then closes.
func (p *rawPeer) wantEnd() {
	p.t.Helper()
	if n, err := io.Copy(io.Discard, p.nc); n != 0 || err != nil {
		p.t.Fatalf("%d bytes and %v instead of the end of the stream", n, err)
	}
	p.nc.Close()
}

// wantGone expects that the connection ends, in any way.
func (p *rawPeer) wantGone() {
	p.t.Helper()
	_, err := io.Copy(io.Discard, p.nc)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		p.t.Fatal("the connection stays")
	}
	p.nc.Close()
}

// decodeHex decodes hexadecimal digits. It ignores spaces.
func decodeHex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
