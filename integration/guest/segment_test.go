package guest_test

import (
	"fmt"
	"testing"

	"lwio/integration/guest"
	"lwio/integration/rping"
)

// TestSegments runs our side in the guest beside siw, so that each side receives the TCP
// segments of the other unchanged: between host and guest the emulator makes new segments.
// Both sides cut frames to the size of a segment. The test sets sizes from a small one to
// more than the largest frame.
//
// Source: [RFC 5044 §4], [RFC 5041 §4]
func TestKernelSegmentsDecode(t *testing.T) {
	g := boot(t)
	siw(t, g)
	kernelServer(t, g)
	defer setMTU(t, g, 65536)
	port := fmt.Sprint(farPort)
	for _, mtu := range []int{600, 1500, 9000, 65536} {
		for _, crc := range []string{"plain", "crc"} {
			t.Run(fmt.Sprintf("MTU %d, %s", mtu, crc), func(t *testing.T) {
				setMTU(t, g, mtu)
				client := []string{"./agent", "client", fmt.Sprintf("%s:%d", guest.Addr, rpingPort), crc}
				for _, size := range edges() {
					client = append(client, fmt.Sprint(size))
				}
				if _, err := g.Run(limit(t), client...); err != nil {
					t.Error(err)
				}
				sizes := []int{33, 500, 1448, 4099, 9001, 32768, rping.MaxSize}
				server := background(t, g, "./agent", "server", guest.Addr+":"+port, crc, fmt.Sprint(len(sizes)))
				listening(t, g, farPort)
				for _, size := range sizes {
					ping(limit(t), t, g, guest.Addr, port, size, 5)
				}
				if _, err := server.Wait(limit(t)); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// setMTU sets the size of a packet between programs of the guest.
func setMTU(t *testing.T, g *guest.Guest, mtu int) {
	t.Helper()
	if _, err := g.Run(limit(t), "ip", "link", "set", "lo", "mtu", fmt.Sprint(mtu)); err != nil {
		t.Fatal(err)
	}
}
