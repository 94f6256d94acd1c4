package iwarp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"lwio/rdma"
)

func fillRandom(b []byte, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
}

// transferConfigs are the modes of a connection.
var transferConfigs = map[string]*Config{
	"crc":       nil,
	"plain":     {CRC: CRCOff},
	"small":     {MaxULPDU: 128},
	"smallOff":  {MaxULPDU: 128, CRC: CRCOff},
	"mss":       {SegmentAtMSS: true},
	"revision1": {Revision: 1},
	"markers":   {Markers: true},
	"marksOff":  {Markers: true, CRC: CRCOff, MaxULPDU: 700},
}

// Source: [RFC 5040 §5.1], [RFC 5040 §5.3], [RFC 5041 §5]
func TestSendAndWriteArriveInAllModes(t *testing.T) {
	for name, cfg := range transferConfigs {
		t.Run(name, func(t *testing.T) {
			client, server := connect(t, cfg, cfg, shape{depth: 16, sge: 4, buf: 4 << 20})
			fillRandom(client.buf, 1)
			for i, n := range []int{0, 1, 2, 3, 7, 8, 9, 100, 255, 256, 257, 4096, 5000, 61440, 65535, 70000, 300000, 1 << 20, 2<<20 + 3} {
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					id := uint64(i)
					clear(server.buf)
					server.recv(id, 2<<20+8, min(n, 1<<20))
					client.post(
						rdma.Request{Op: rdma.OpWrite, ID: id, SGL: client.sgl(1, n), Remote: server.at(3)},
						rdma.Request{Op: rdma.OpSend, ID: id + 100, SGL: client.sgl(5, min(n, 1<<20))},
					)
					client.want(rdma.OpWrite, id, rdma.StatusSuccess)
					client.want(rdma.OpSend, id+100, rdma.StatusSuccess)
					r := server.want(rdma.OpReceive, id, rdma.StatusSuccess)
					if r.Bytes != min(n, 1<<20) {
						t.Fatalf("received %d bytes", r.Bytes)
					}
					if !bytes.Equal(server.buf[3:3+n], client.buf[1:1+n]) {
						t.Error("write arrived wrong")
					}
					if !bytes.Equal(server.buf[2<<20+8:2<<20+8+r.Bytes], client.buf[5:5+r.Bytes]) {
						t.Error("send arrived wrong")
					}
				})
			}
		})
	}
}
