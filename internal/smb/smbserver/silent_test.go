package smbserver

import (
	"net"
	"runtime"
	"testing"
	"time"

	"lwio/internal/ntstatus"
)

// dialFrom connects from an address of the loopback network, on systems that have all of them.
func dialFrom(t testing.TB, addr string, n int) net.Conn {
	t.Helper()
	var d net.Dialer
	if runtime.GOOS == "linux" {
		d.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 1+byte(n>>16), byte(n>>8), byte(n))}
	}
	nc, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return nc
}

// Ten thousand peers, each from an address of its own, connect and fall silent: at once, or after
// the negotiation. The server refuses no client meanwhile, and holds no more connections than
// configured.
//
// Source: [MS-SMB2 3.3.5.1] (the limits are ours)
func TestTenThousandSilentPeersKeepNoClientOut(t *testing.T) {
	const peers, places, window = 10_000, 128, 1024
	s, addr, _ := testServer(t, func(c *Config) { c.MaxConnections, c.AuthTimeout = places, time.Hour })
	first := mount(t, addr, "data")
	var open [window]net.Conn // the newest; the server has evicted all others
	defer func() {
		for _, nc := range open {
			if nc != nil {
				nc.Close()
			}
		}
	}()
	for i := range peers {
		if old := open[i%window]; old != nil {
			old.Close()
		}
		nc := dialFrom(t, addr, i)
		open[i%window] = nc
		if i%10 == 0 {
			c := &raw{t: t, nc: nc}
			c.mustNegotiate(0x0311)
		}
		if i%1000 == 999 {
			c := mount(t, addr, "data")
			c.want(ntstatus.Success, cmdWrite, writeBody(c.mustCreate(rw("f")), 0, []byte("here")))
			c.want(ntstatus.Success, cmdLogoff, []byte{4, 0, 0, 0})
			c.nc.Close()
		}
	}
	first.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	if st := s.Stats(); st.Refused != 0 || st.Connections > places || s.memory.HeldBy("") != 0 {
		t.Errorf("%d of %d connections, %d refused, %d bytes beyond the allowances", st.Connections, places, st.Refused, s.memory.HeldBy(""))
	}
}

// A flood of silent peers, each from an address of its own, ends no logon from an address from which a
// user has logged on, however many of them are under way there.
//
// Source: [MS-SMB2 3.3.5.1] (the limits are ours)
func TestFloodEndsNoLogonOfKnownHost(t *testing.T) {
	const places, silent, clients = 64, 512, 32
	_, addr, _ := testServer(t, func(c *Config) { c.MaxConnections, c.AuthTimeout = places, time.Hour })
	first := login(t, addr, 0x0311)
	first.want(ntstatus.Success, cmdLogoff, []byte{4, 0, 0, 0})
	first.nc.Close()
	logons := make([]*raw, clients)
	for i := range logons {
		logons[i] = dial(t, addr)
		logons[i].mustNegotiate(0x0311)
	}
	for i := range silent {
		nc := dialFrom(t, addr, i)
		defer nc.Close()
		if i%100 == 0 {
			(&raw{t: t, nc: nc}).mustNegotiate(0x0311)
		}
	}
	for _, c := range logons {
		c.mustSetup(testUser, testPassword)
	}
}
