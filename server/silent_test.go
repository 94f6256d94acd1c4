package server

import (
	"net"
	"runtime"
	"testing"
	"time"
)

// Ten thousand peers, each from an address of its own, connect over TCP and fall silent: at once, or
// when the server has accepted their request. The server refuses no client meanwhile, and holds no
// more connections than configured.
//
// Source: [LWIO §Connection Authentication] (the limits are ours)
func TestTenThousandSilentPeersKeepNoClientOut(t *testing.T) {
	const peers, window = 10_000, 1024
	v := newEnv(t, envConfig{on: "iwarp", limits: Limits{Unauthenticated: 32, AuthTimeout: time.Hour}})
	first := v.client()
	addr := v.negotiate(v.sess).addr.AddrPort.String()
	var open [window]net.Conn // the newest; the server has evicted all others
	defer func() {
		for _, nc := range open {
			if nc != nil {
				nc.Close()
			}
		}
	}()
	request := append([]byte("MPA ID Req Frame"), 0x40, 1, 0, 0) // revision 1, CRC, no private data
	for i := range peers {
		if old := open[i%window]; old != nil {
			old.Close()
		}
		var d net.Dialer
		if runtime.GOOS == "linux" {
			d.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 1+byte(i>>16), byte(i>>8), byte(i))}
		}
		nc, err := d.DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		open[i%window] = nc
		if i%4 == 0 {
			if _, err := nc.Write(request); err != nil {
				t.Fatal(err)
			}
		}
		if i%1000 == 999 {
			c := v.client()
			v.check(c)
			v.within()
			c.connector.Close()
		}
	}
	v.check(first)
	if n := v.e.count.rejected.Load() + v.e.count.authFailures.Load(); n != 0 {
		t.Errorf("%d connections rejected", n)
	}
}
