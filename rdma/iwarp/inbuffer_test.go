package iwarp

import (
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
