package guest_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"lwio/integration/guest"
	"lwio/integration/rping"
	"lwio/rdma"
	"lwio/rdma/iwarp"
)

// settle is the wait of our initiator before its first message if it sends no
// ready-to-receive message. siw begins to read the socket only after it has sent its reply,
// and does not notice earlier data until more data arrives.
const settle = 250 * time.Millisecond

// edges are sizes around the limits of headers, padding, segments and buffers, and some
// random ones.
func edges() []int {
	sizes := []int{
		1, 2, 3, 4, 5, 6, 7, 8, 9, 63, 64, 65, 127, 128, 129, 1023, 1024, 1025, 1429, 1430, 1431, 1447, 1448, 1449,
		4095, 4096, 4097, 8175, 8191, 8192, 8193, 9000, 16383, 16384, 32767, 32768, 64734, 64767, 64768, 65000, 65535,
	}
	for range 40 {
		sizes = append(sizes, 1+rand.IntN(rping.MaxSize))
	}
	return sizes
}

// kernelServer runs the kernel's rping server until the end of the test.
func kernelServer(t *testing.T, g *guest.Guest) *guest.Command {
	t.Helper()
	c := background(t, g, "rping", "-s", "-P", "-a", guest.Addr, "-p", fmt.Sprint(rpingPort), "-S", fmt.Sprint(rping.MaxSize))
	listening(t, g, rpingPort)
	return c
}

// TestClientOfSiw pings the kernel's server with and without CRC, on a TCP socket and on a
// connection of another type, and with every ready-to-receive message that siw knows.
//
// Source: [RFC 5044 §7.1], [RFC 6581 §9], [RFC 5040 §5]
func TestClientOfSiw(t *testing.T) {
	g := boot(t)
	siw(t, g)
	kernelServer(t, g)
	for _, crc := range []iwarp.CRCPolicy{iwarp.CRCOff, iwarp.CRCOn} {
		t.Run(fmt.Sprintf("sizes, CRC %v", crc == iwarp.CRCOn), func(t *testing.T) {
			a := adapter(t, iwarp.Config{CRC: crc})
			if err := rping.Client(limit(t), a, remote(g, rpingPort), rping.ClientConfig{Sizes: edges(), Pause: settle}); err != nil {
				t.Fatal(err)
			}
		})
		for _, ready := range []struct {
			name      string
			edit      func([]byte)
			in, out   uint16 // of siw's answer
			withoutIt uint16
		}{
			{"write", nil, peerToPeer, rtrWrite, rtrRead},
			{"read", clearBits(0, rtrWrite), peerToPeer, rtrRead, rtrWrite},
			{"none", clearBits(peerToPeer, rtrWrite|rtrRead), 0, 0, rtrWrite | rtrRead},
		} {
			t.Run(fmt.Sprintf("ready by %s, CRC %v", ready.name, crc == iwarp.CRCOn), func(t *testing.T) {
				tap := &tap{edit: ready.edit}
				cfg := iwarp.Config{CRC: crc, Revision: 2}
				tap.into(&cfg)
				err := rping.Client(limit(t), adapter(t, cfg), remote(g, rpingPort), rping.ClientConfig{Sizes: []int{1, 1000, 65000}, Pause: settle})
				if err != nil {
					t.Fatal(err)
				}
				tap.wantCRC(t, crc == iwarp.CRCOn)
				_, reply := tap.frames()
				in, out := reply.numbers()
				if in&peerToPeer != ready.in || out&ready.out != ready.out || out&ready.withoutIt != 0 {
					t.Errorf("siw answered %x", reply)
				}
			})
		}
	}
}

// TestManyRoundsOnOneConnection keeps one connection busy with small messages.
//
// Source: [RFC 5040 §5]
func TestManyRoundsOnOneConnection(t *testing.T) {
	g := boot(t)
	siw(t, g)
	kernelServer(t, g)
	sizes := make([]int, 500)
	for i := range sizes {
		sizes[i] = 1 + i%100
	}
	a := adapter(t, iwarp.Config{})
	if err := rping.Client(limit(t), a, remote(g, rpingPort), rping.ClientConfig{Sizes: sizes, Pause: settle}); err != nil {
		t.Fatal(err)
	}
}

// TestPrivateDataUpToTheLimit gives the kernel the most private data that it takes, 256
// bytes with the four bytes of revision 2, and one byte more, for which the kernel ends the
// connection.
//
// Source: [RFC 5044 §7.1.1], [RFC 6581 §9]
func TestPrivateDataUpToTheLimit(t *testing.T) {
	g := boot(t)
	siw(t, g)
	kernelServer(t, g)
	a := adapter(t, iwarp.Config{Revision: 2})
	for _, n := range []int{0, 1, 3, 252} {
		err := rping.Client(limit(t), a, remote(g, rpingPort), rping.ClientConfig{Sizes: []int{100}, Pause: settle, PrivateData: make([]byte, n)})
		if err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	err := rping.Client(limit(t), a, remote(g, rpingPort), rping.ClientConfig{Sizes: []int{100}, PrivateData: make([]byte, 253)})
	if !errors.Is(err, rdma.StatusConnectionRefused) {
		t.Errorf("253 bytes: %v", err)
	}
}

// TestRevision1ClientCannotRead pings the kernel's server in revision 1. Revision 1 has no
// number of reads, so the kernel assumes zero and fails to read; our side must see the end
// of the connection.
//
// Source: [RFC 5044 §7.1], [RFC 6581 §9.1]
func TestRevision1ClientCannotRead(t *testing.T) {
	g := boot(t)
	siw(t, g)
	server := kernelServer(t, g)
	a := adapter(t, iwarp.Config{Revision: 1})
	ctx := limit(t)
	err := rping.Client(ctx, a, remote(g, rpingPort), rping.ClientConfig{Sizes: []int{100}, Pause: settle})
	if err == nil || ctx.Err() != nil || errors.Is(err, rping.ErrMismatch) {
		t.Errorf("%v", err)
	}
	eventually(ctx, t, "the server says that it cannot read", func() bool { return strings.Contains(server.Output(), "post send error") })
}
