//go:build unix

package rsock

import (
	"net"
	"sync/atomic"
	"syscall"
	"testing"

	"lwio/rdma"
)

// TestOnlyAFreePortIsAnnounced has most ports for the proof in use: the dialer announces one
// that is free, with its first request, also if the dialed connection has a port of the
// program.
func TestOnlyAFreePortIsAnnounced(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		var requests atomic.Int64
		lc := &ListenConfig{Config: with(provider()), Admit: func(r *Request) bool {
			if r.Transport != TransportTCP {
				requests.Add(1)
			}
			return true
		}}
		l := listenOn(t, lc, "127.0.0.1:0")
		for _, fixed := range []bool{false, true} {
			tries := 0
			d := func(nd *net.Dialer) *Dialer {
				requests.Store(0)
				tries = 0
				d := &Dialer{Config: with(provider()), NetDialer: nd}
				d.init()
				d.router.ports = func() uint16 {
					if tries++; tries <= 3*portTriesOfProof {
						return addrOf(l.tcp).Port() // in use
					}
					return dynamicPort()
				}
				return d
			}
			var c, a *Conn
			if fixed {
				c, a = pairFromFixedPort(t, d, l)
			} else {
				c, a = pairOf(t, d(nil), l)
			}
			mustBe(t, c, a, provider().Name())
			if n := requests.Load(); n != 1 {
				t.Errorf("fixed port %t: %d requests, want 1", fixed, n)
			}
			if tries <= 3*portTriesOfProof {
				t.Errorf("fixed port %t: %d ports were tried, all in use", fixed, tries)
			}
		}
	})
}

// TestDialerPreparesTheSocketOfTheProof calls the functions of a net.Dialer for the TCP
// connection of the proof.
func TestDialerPreparesTheSocketOfTheProof(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider func() rdma.Provider) {
		l := listenOn(t, &ListenConfig{Config: with(provider())}, "127.0.0.1:0")
		var prepared atomic.Int64
		prepare := func(network, address string, c syscall.RawConn) error {
			if network != "tcp4" || address != l.Addr().String() {
				t.Errorf("prepares a socket for %s, %s", network, address)
			}
			prepared.Add(1)
			return nil
		}
		c, a := pairOf(t, &Dialer{Config: with(provider()), NetDialer: &net.Dialer{Control: prepare}}, l)
		mustBe(t, c, a, provider().Name())
		if prepared.Load() == 0 {
			t.Error("the socket was not prepared")
		}
	})
}

// TestSocketAddressHasItsZone checks the addresses that sockets are bound to.
func TestSocketAddressHasItsZone(t *testing.T) {
	loopback, err := net.InterfaceByIndex(1)
	if err != nil {
		t.Fatal(err)
	}
	for zone, want := range map[string]uint32{"": 0, loopback.Name: 1, "7": 7, "none such": 0} {
		if got := zoneID(zone); got != want {
			t.Errorf("zone %q has number %d, want %d", zone, got, want)
		}
	}
}
