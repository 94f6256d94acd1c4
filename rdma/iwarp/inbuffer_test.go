package iwarp

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"

	"lwio/rdma"
	"lwio/rdma/iwarp/internal/frame"
)

// A connection with a few bytes of an unfinished frame holds no buffer, and loses none of
// these bytes.
//
// Source: [RFC 5042 §6.4]
func TestPartialFrameHoldsNoBuffer(t *testing.T) {
	for _, crc := range []CRCPolicy{CRCOn, CRCOff} {
		e, p := connectRaw(t, crc)
		x := &e.qp.(*queuePair).c.rx
		data := make([]byte, 3000)
		for i := range data {
			data[i] = byte(i)
		}
		msn := uint32(0)
		for _, r := range []struct{ size, cut int }{{8, 1}, {8, 2}, {8, 10}, {8, 30}, {1000, 999}, {1000, restSize}, {3000, 1}, {3000, 500}} {
			msn++
			frame := p.frame(frame.UntaggedSegment(frame.OpSend, frame.QueueSend, msn, 0, true), data[:r.size])
			cut := min(r.cut, len(frame)-1)
			e.recv(uint64(msn), 0, 4096)
			if _, err := p.nc.Write(frame[:cut]); err != nil {
				t.Fatal(err)
			}
			until(t, "the part has arrived without a buffer", func() bool {
				x.mu.Lock()
				defer x.mu.Unlock()
				return x.in.buf == nil && (x.in.w-x.in.r > 0 || x.active)
			})
			clear(e.buf)
			if _, err := p.nc.Write(frame[cut:]); err != nil {
				t.Fatal(err)
			}
			if res := e.want(rdma.OpReceive, uint64(msn), rdma.StatusSuccess); res.Bytes != r.size || string(e.buf[:r.size]) != string(data[:r.size]) {
				t.Errorf("CRC %v, %d bytes cut at %d: %+v, or other data", crc, r.size, cut, res)
			}
		}
		// The end in the middle of a frame is an abort.
		if _, err := p.nc.Write([]byte{0}); err != nil {
			t.Fatal(err)
		}
		until(t, "the part has arrived", func() bool {
			x.mu.Lock()
			defer x.mu.Unlock()
			return x.in.w-x.in.r == 1
		})
		p.nc.Close()
		e.wantDone()
	}
}

// A peer that has sent no message holds the memory of the bytes that it has sent, however many of a frame
// these are. The frame arrives intact, and its memory is freed.
//
// Source: [RFC 5042 §6.4]
func TestUnknownPeerHoldsNoBuffer(t *testing.T) {
	for _, crc := range []CRCPolicy{CRCOn, CRCOff} {
		e, p := connectRaw(t, crc)
		x := &e.qp.(*queuePair).c.rx
		data := bytes.Repeat([]byte("0123456789abcdef"), 2500)
		frame := p.frame(frame.UntaggedSegment(frame.OpSend, frame.QueueSend, 1, 0, true), data)
		e.recv(1, 0, len(data))
		sent := 0
		for _, part := range []int{10, 2000, 2001, 30000} {
			if _, err := p.nc.Write(frame[sent:part]); err != nil {
				t.Fatal(err)
			}
			sent = part
			until(t, "the part has arrived without a buffer", func() bool {
				x.mu.Lock()
				defer x.mu.Unlock()
				there := x.in.w - x.in.r
				if x.active {
					there += len(frame) - x.left - x.trailer
				}
				return x.in.buf == nil && there == part && len(x.in.rest) <= max(2*part, restSize)
			})
		}
		if _, err := p.nc.Write(frame[sent:]); err != nil {
			t.Fatal(err)
		}
		if res := e.want(rdma.OpReceive, 1, rdma.StatusSuccess); res.Bytes != len(data) || !bytes.Equal(e.buf[:len(data)], data) {
			t.Errorf("CRC %v: %+v, or other data", crc, res)
		}
		until(t, "the memory is freed", func() bool {
			x.mu.Lock()
			defer x.mu.Unlock()
			return x.in.buf == nil && len(x.in.rest) <= restSize
		})
	}
}

// blockingConn is a connection without a descriptor. It notes the largest read that began before open.
type blockingConn struct {
	net.Conn
	open    *atomic.Bool
	reading atomic.Int64 // bytes of the read in progress
	largest atomic.Int64
}

func (c *blockingConn) Read(p []byte) (int, error) {
	if !c.open.Load() {
		c.largest.Store(max(c.largest.Load(), int64(len(p))))
	}
	c.reading.Store(int64(len(p)))
	defer c.reading.Store(0)
	return c.Conn.Read(p)
}

// A wait for an unknown peer takes no buffer on a connection that can only block.
//
// Source: [RFC 5042 §6.4]
func TestBlockingReadOfUnknownPeerHoldsNoBuffer(t *testing.T) {
	var open atomic.Bool
	var nc *blockingConn
	from, to := connect(t, &Config{Dial: func(ctx context.Context, _, remote *net.TCPAddr) (net.Conn, error) {
		tcp, err := new(net.Dialer).DialContext(ctx, "tcp", remote.String())
		nc = &blockingConn{Conn: tcp, open: &open}
		return nc, err
	}}, nil, shape{depth: 4, sge: 1, buf: 64 << 10})
	until(t, "the reader waits", func() bool { return nc.reading.Load() > 0 })
	open.Store(true)
	if n := nc.largest.Load(); n > restSize {
		t.Errorf("a read of %d bytes waits for an unknown peer", n)
	}
	for id := range uint64(2) {
		from.recv(id, 0, len(from.buf))
		to.post(rdma.Request{ID: id, Op: rdma.OpSend, SGL: to.sgl(0, len(to.buf))})
		if r := from.want(rdma.OpReceive, id, rdma.StatusSuccess); r.Bytes != len(from.buf) {
			t.Errorf("%+v", r)
		}
	}
}
