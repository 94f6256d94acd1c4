package fileio

import (
	"bytes"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"lwio/internal/client/base"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/shm"
)

// The best provider that works is used, and the transport names the better ones
// and why each is not used. A warning is for a provider that should have worked.
//
// Source: [OP-38b], [OP-40]
func TestBestWorkingProviderIsUsed(t *testing.T) {
	here := shmHost(t)
	elsewhere := here
	elsewhere[0] ^= 1
	instance := func(host [16]byte, name string) []wire.NetAddress {
		return []wire.NetAddress{{HostAddress: host[:], Discriminator: []byte(name)}}
	}
	for name, c := range map[string]struct {
		instances []wire.NetAddress // of shm; nil: it is not offered
		last      bool              // shm stands behind iwarp
		skipped   string
		warns     bool
	}{
		"not offered":   {skipped: "shm: the server does not offer it"},
		"another host":  {instances: instance(elsewhere, "x"), skipped: "shm: the server is on another host"},
		"preference":    {instances: instance(here, "x"), last: true, skipped: "shm: the server prefers another"},
		"no listener":   {instances: instance(here, "lwio-no-listener"), skipped: "connection refused", warns: true},
		"no name":       {instances: instance(here, ""), skipped: "an address of 16 and 0 bytes", warns: true},
		"a short host":  {instances: []wire.NetAddress{{HostAddress: here[:4], Discriminator: []byte("x")}}, skipped: "an address of 4 and 1 bytes", warns: true},
		"no address":    {instances: []wire.NetAddress{}, skipped: "shm: the server names no address", warns: true},
		"here or there": {instances: append(instance(elsewhere, "x"), instance(here, "lwio-no-listener")...), skipped: "connection refused", warns: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRawServer(t, "iwarp", newFakeShare())
			if c.instances != nil {
				s.sess.offers = slices.Insert(s.sess.offers, 0, wire.AddressBlock{Name: shm.Name, Instances: c.instances})
			}
			if c.last {
				slices.Reverse(s.sess.offers)
			}
			var log bytes.Buffer
			cl := s.connect(base.Config{
				Providers: []rdma.Provider{shm.New(nil), iwarp.New(nil)}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			tr := cl.Transport()
			if tr.Name != "iwarp" || len(tr.Skipped) != 1 || !strings.Contains(tr.Skipped[0].String(), c.skipped) || strings.Count(tr.Skipped[0].String(), "shm: ") != 1 {
				t.Errorf("%v", tr)
			}
			if !strings.Contains(tr.String(), tr.Skipped[0].String()) || !strings.Contains(log.String(), "provider not used") {
				t.Errorf("%v, %s", tr, &log)
			}
			if got := strings.Contains(log.String(), "level=WARN"); got != c.warns {
				t.Errorf("log %s", &log)
			}
		})
	}
}

// shmHost is the name of this host in the shm provider.
func shmHost(t *testing.T) [16]byte {
	t.Helper()
	a, err := shm.New(nil).OpenAdapter(t.Context(), netip.Addr{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	l, err := rdma.Listen(t.Context(), a, rdma.Addr{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	addr, err := l.LocalAddr()
	if err != nil {
		t.Fatal(err)
	}
	return addr.Host
}
