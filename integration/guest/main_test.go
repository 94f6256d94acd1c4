package guest_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"lwio/integration/guest"
	"lwio/internal/test/skip"
	"lwio/rdma"
	"lwio/rdma/iwarp"
)

// rpingPort is the guest's port of the kernel's rping server, farPort the guest's port of
// other servers.
const (
	rpingPort = 7174
	farPort   = 7471
)

// booted is the guest of all tests. The first test that needs it boots it.
var booted struct {
	once sync.Once
	g    *guest.Guest
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if booted.g != nil {
		if err := booted.g.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// boot returns the guest, with the siw of Debian's kernel.
func boot(t *testing.T) *guest.Guest {
	t.Helper()
	if err := guest.Available(); err != nil {
		skip.Test(t, "a program is missing", err)
	}
	booted.once.Do(func() {
		booted.g, booted.err = guest.Start(context.Background(), os.Stderr, rpingPort, farPort)
	})
	if booted.err != nil {
		t.Fatal(booted.err)
	}
	return booted.g
}

// exchangeTime bounds one exchange with the guest.
const exchangeTime = 4 * time.Minute

// limit returns the context of one exchange.
func limit(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), exchangeTime)
	t.Cleanup(cancel)
	return ctx
}

// defaults are the parameters of siw at its start. rtr_type is a number in network byte
// order: 0x8000 offers a Write as the first message, 0x4000 a Read.
var defaults = map[string]string{"mpa_crc_required": "N", "mpa_version": "2", "peer_to_peer": "N", "rtr_type": "192"}

// siw sets parameters of the kernel's driver, given as name=value, for new
// connections until the end of the test.
func siw(t *testing.T, g *guest.Guest, settings ...string) {
	t.Helper()
	values := map[string]string{}
	for name, value := range defaults {
		values[name] = value
	}
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		values[name] = value
	}
	var script strings.Builder
	for name, value := range values {
		fmt.Fprintf(&script, "echo %s >/sys/module/siw/parameters/%s;", value, name)
	}
	if _, err := g.Run(limit(t), "sh", "-ec", script.String()); err != nil {
		t.Fatal(err)
	}
}

// background starts a command that is killed at the end of the test.
func background(t *testing.T, g *guest.Guest, argv ...string) *guest.Command {
	t.Helper()
	c, err := g.Begin(limit(t), argv...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Kill()
		if t.Failed() {
			t.Logf("%s:\n%s", strings.Join(argv, " "), c.Output())
		}
	})
	return c
}

// listening waits until a TCP port of the guest takes connections.
func listening(t *testing.T, g *guest.Guest, port int) {
	t.Helper()
	// In the kernel's table the port is hexadecimal, and the state 0A means listening.
	script := fmt.Sprintf("until grep -qi ':%04X 00000000:0000 0A' /proc/net/tcp; do sleep 0.02; done", port)
	if _, err := g.Run(limit(t), "sh", "-c", script); err != nil {
		t.Fatal(err)
	}
}

// adapter opens our side on loopback.
func adapter(t *testing.T, cfg iwarp.Config) rdma.Adapter {
	t.Helper()
	a, err := iwarp.New(&cfg).OpenAdapter(t.Context(), netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

// remote is the address of a port of the guest for our side.
func remote(g *guest.Guest, port int) rdma.Addr {
	return rdma.IPAddr(iwarp.Name, netip.MustParseAddrPort(g.HostPort(port)))
}

// listen opens our side's listener and returns its port.
func listen(t *testing.T, a rdma.Adapter) (rdma.Listener, string) {
	t.Helper()
	l, err := rdma.Listen(t.Context(), a, rdma.Addr{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	addr, err := l.LocalAddr()
	if err != nil {
		t.Fatal(err)
	}
	return l, fmt.Sprint(addr.AddrPort.Port())
}

// eventually waits for a condition of the guest.
func eventually(ctx context.Context, t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("in vain: %s", what)
		}
	}
}
