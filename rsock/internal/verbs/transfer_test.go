package verbs

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// random fills memory.
func random(b []byte) {
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
}

// TestTransfersWithSeveralBuffers moves messages, RDMA Reads and RDMA Writes from and to
// several buffers.
//
// Source: [WSD §2.3 WSPRdmaRead], [WSD §2.3 WSPRdmaWrite], [WSD §5.6]
func TestTransfersWithSeveralBuffers(t *testing.T) {
	onAll(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, nil, 1<<20)
		var send, recv, op Overlapped
		random(a.buf[:300])
		if err := b.Recv(&recv, []BufferEx{{b.h, 100, 50}, {b.h, 1000, 400}}, 0); err != nil {
			t.Fatal(err)
		}
		sent := a.ok("send", &send, a.Send(&send, []BufferEx{{a.h, 0, 200}, {a.h, 200, 100}}, 0))
		if n := b.ok("receive", &recv, nil); n != 300 || sent != 300 {
			t.Errorf("sent %d, received %d bytes", sent, n)
		}
		if got := append(bytes.Clone(b.buf[100:150]), b.buf[1000:1250]...); !bytes.Equal(got, a.buf[:300]) {
			t.Error("the message has changed")
		}

		theirs := make([]byte, 1<<20)
		random(theirs)
		desc := b.expose(theirs, MemReadWrite)
		n := a.ok("rdma read", &op, a.RdmaRead(&op, []BufferEx{{a.h, 0, 500_000}, {a.h, 600_000, 5}}, desc, 1000, 0))
		if got := append(bytes.Clone(a.buf[:500_000]), a.buf[600_000:600_005]...); n != 500_005 || !bytes.Equal(got, theirs[1000:501_005]) {
			t.Errorf("rdma read of %d bytes: other bytes", n)
		}
		random(a.buf)
		a.ok("rdma write", &op, a.RdmaWrite(&op, a.part(7, 700_000), desc, 4096, 0))
		if err := b.Recv(&recv, nil, 0); err != nil {
			t.Fatal(err)
		}
		a.ok("send", &send, a.Send(&send, nil, 0))
		b.ok("receive", &recv, nil) // the write was placed before
		if !bytes.Equal(theirs[4096:704_096], a.buf[7:700_007]) {
			t.Error("rdma write: other bytes")
		}
		if err := b.DeregisterRdmaMemory(desc); err != nil {
			t.Error(err)
		}
	})
}
