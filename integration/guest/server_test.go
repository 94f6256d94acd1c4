package guest_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"lwio/integration/guest"
	"lwio/integration/rping"
	"lwio/rdma"
	"lwio/rdma/iwarp"
)

// served is the outcome of a connection of our server.
type served struct {
	rounds int
	err    error
}

// serve serves one client in the background.
func serve(ctx context.Context, a rdma.Adapter, l rdma.Listener) <-chan served {
	done := make(chan served, 1)
	go func() {
		rounds, _, err := rping.Serve(ctx, a, l)
		done <- served{rounds, err}
	}()
	return done
}

// kernelClient runs the kernel's client against our server. The client must succeed.
func kernelClient(t *testing.T, g *guest.Guest, a rdma.Adapter, l rdma.Listener, port string, size, count int) {
	t.Helper()
	ctx := limit(t)
	done := serve(ctx, a, l)
	ping(ctx, t, g, guest.Host, port, size, count)
	if s := <-done; s.err != nil || s.rounds != count {
		t.Errorf("size %d: served %d rounds of %d: %v", size, s.rounds, count, s.err)
	}
}

// lateEvent is the message of rping when its other thread has closed the events before the
// thread that waits for them ends. That happens after all rounds; rping then exits with a
// failure.
const lateEvent = "rdma_get_cm_event: Bad file descriptor"

// ping runs the kernel's client.
func ping(ctx context.Context, t *testing.T, g *guest.Guest, addr, port string, size, count int) {
	t.Helper()
	out, err := g.Run(ctx, "rping", "-c", "-V", "-a", addr, "-p", port, "-S", fmt.Sprint(size), "-C", fmt.Sprint(count))
	if err != nil && !strings.Contains(out, lateEvent) {
		t.Error(err)
	}
}

// TestServerOfSiw serves the kernel's client with each start-up of siw: both revisions, CRC
// requested by none, either or both sides, and each first message after the reply, or none.
//
// Source: [RFC 5044 §7.1], [RFC 6581 §9], [RFC 5040 §5]
func TestServerOfSiw(t *testing.T) {
	g := boot(t)
	for _, ready := range []struct {
		name     string
		settings []string
		revision byte
		answer   uint16 // the kind that our reply chooses
	}{
		{"revision 1", []string{"mpa_version=1"}, 1, 0},
		{"revision 2, ready by nothing", nil, 2, 0},
		{"revision 2, ready by write or read", []string{"peer_to_peer=Y"}, 2, rtrWrite},
		{"revision 2, ready by write", []string{"peer_to_peer=Y", "rtr_type=128"}, 2, rtrWrite},
		{"revision 2, ready by read", []string{"peer_to_peer=Y", "rtr_type=64"}, 2, rtrRead},
	} {
		for i, crc := range []struct {
			ours iwarp.CRCPolicy
			siws string
			want bool
		}{
			{iwarp.CRCOff, "N", false}, {iwarp.CRCOn, "N", true}, {iwarp.CRCOff, "Y", true}, {iwarp.CRCOn, "Y", true},
		} {
			t.Run(fmt.Sprintf("%s, CRC case %d", ready.name, i), func(t *testing.T) {
				siw(t, g, append(ready.settings, "mpa_crc_required="+crc.siws)...)
				tap := &tap{}
				cfg := iwarp.Config{CRC: crc.ours}
				tap.into(&cfg)
				a := adapter(t, cfg)
				l, port := listen(t, a)
				kernelClient(t, g, a, l, port, 1000, 3)
				tap.wantCRC(t, crc.want)
				reply, request := tap.frames()
				if request.revision() != ready.revision || reply.revision() != ready.revision {
					t.Errorf("siw asked %x", request)
				}
				if _, out := reply.numbers(); out&(rtrWrite|rtrRead) != ready.answer {
					t.Errorf("siw asked %x, we answered %x", request, reply)
				}
			})
		}
	}
}

// TestServerOfSiwSizes serves the kernel's client with data of many sizes. siw cuts the
// data into frames as large as a TCP segment.
//
// Source: [RFC 5041 §4], [RFC 5044 §4]
func TestServerOfSiwSizes(t *testing.T) {
	g := boot(t)
	siw(t, g)
	for _, crc := range []iwarp.CRCPolicy{iwarp.CRCOff, iwarp.CRCOn} {
		a := adapter(t, iwarp.Config{CRC: crc})
		l, port := listen(t, a)
		for _, size := range []int{32, 33, 34, 35, 64, 1000, 1425, 1448, 4096, 4099, 16384, 32771, 64768, 65000, 65535} {
			kernelClient(t, g, a, l, port, size, 5)
		}
		kernelClient(t, g, a, l, port, 100, 300)
	}
}

// TestServerRejectsSiw checks that the kernel understands our rejection.
//
// Source: [RFC 5044 §7.1.2], [ND Connector.Reject]
func TestServerRejectsSiw(t *testing.T) {
	g := boot(t)
	for _, version := range []string{"1", "2"} {
		siw(t, g, "mpa_version="+version)
		a := adapter(t, iwarp.Config{})
		l, port := listen(t, a)
		client := background(t, g, "rping", "-c", "-a", guest.Host, "-p", port, "-C", "1")
		c, err := a.CreateConnector()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx := limit(t)
		if err := l.ConnectionRequest(ctx, c); err != nil {
			t.Fatal(err)
		}
		if err := c.Reject([]byte("no")); err != nil {
			t.Fatal(err)
		}
		eventually(ctx, t, "the kernel's client sees the rejection", func() bool {
			return strings.Contains(client.Output(), "RDMA_CM_EVENT_REJECTED")
		})
	}
}

// TestReadLimitIsRespected posts many reads at once to a kernel program that takes one at a
// time, and ends the connection for one more.
//
// Source: [RFC 6581 §9.1], [RFC 5040 §5.2]
func TestReadLimitIsRespected(t *testing.T) {
	g := boot(t)
	siw(t, g)
	ctx := limit(t)
	a := adapter(t, iwarp.Config{})
	l, port := listen(t, a)
	e, c, source, size := visited(ctx, t, g, a, l, port)
	if limits, err := c.ReadLimits(); err != nil || limits.Outbound != 1 {
		t.Fatalf("siw takes %+v: %v", limits, err)
	}
	const reads = 10
	for i := range reads {
		r := rdma.Request{Op: rdma.OpRead, SGL: e.SGE(1000*i, size), Remote: source}
		if i < reads-1 {
			r.Flags = rdma.FlagSilentSuccess
			if _, err := e.QP.Post([]rdma.Request{r}); err != nil {
				t.Fatal(err)
			}
		} else if err := e.Do(ctx, r); err != nil {
			t.Fatal(err, c.Err())
		}
	}
	for i := range reads {
		if !bytes.HasPrefix(e.Bytes(1000*i, size), []byte("rdma-ping-0: ")) {
			t.Errorf("read %d: %q", i, e.Bytes(1000*i, size))
		}
	}
}

// TestManyClientsAtOnce serves many kernel clients at once.
//
// Source: [RFC 5040 §5]
func TestManyClientsAtOnce(t *testing.T) {
	g := boot(t)
	siw(t, g)
	const clients, count = 16, 20
	ctx := limit(t)
	a := adapter(t, iwarp.Config{})
	l, port := listen(t, a)
	var servers []<-chan served
	var programs []*guest.Command
	for range clients {
		servers = append(servers, serve(ctx, a, l))
		programs = append(programs, background(t, g, "rping", "-c", "-V", "-a", guest.Host, "-p", port, "-S", "5000", "-C", fmt.Sprint(count)))
	}
	for i := range clients {
		if s := <-servers[i]; s.err != nil || s.rounds != count {
			t.Errorf("served %d rounds: %v", s.rounds, s.err)
		}
		if out, err := programs[i].Wait(ctx); err != nil && !strings.Contains(out, lateEvent) {
			t.Error(err)
		}
	}
}

// TestKilledClientEndsItsConnection kills the kernel's client between two rounds: the connection
// ends, and the next one is served.
//
// Source: [RFC 5040 §6]
func TestKilledClientEndsItsConnection(t *testing.T) {
	g := boot(t)
	siw(t, g)
	ctx := limit(t)
	a := adapter(t, iwarp.Config{})
	l, port := listen(t, a)
	e, c, source, size := visited(ctx, t, g, a, l, port)
	if _, err := g.Run(ctx, "killall", "-9", "rping"); err != nil {
		t.Fatal(err)
	}
	if ending(ctx, t, c) == nil {
		t.Error("the connection ended without a cause")
	}
	if err := e.Do(ctx, rdma.Request{Op: rdma.OpRead, SGL: e.SGE(0, size), Remote: source}); err == nil {
		t.Error("a read of a dead program succeeded")
	}
	kernelClient(t, g, a, l, port, 1000, 3)
}
