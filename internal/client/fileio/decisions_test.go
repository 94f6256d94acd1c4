package fileio

import (
	"bytes"
	"context"
	"net/netip"
	"reflect"
	"sync"
	"testing"

	"lwio/internal/client/base"
	"lwio/internal/wire"
	"lwio/rdma"
)

// A READ is as long as the server's window allows, with any window of the client, which
// bounds single RDMA writes.
//
// Source: [OP-6], [OP-60]
func TestWindowOfTheServerRules(t *testing.T) { onEach(t, testWindowOfTheServerRules) }

func testWindowOfTheServerRules(t *testing.T, on string) {
	for _, r := range []struct {
		server uint32
		client int
		want   uint32
	}{{128 << 10, 64 << 10, 128 << 10}, {64 << 10, 512 << 10, 64 << 10}, {100_001, 512, 100_001}} {
		share := newFakeShare()
		share.put("f", pattern(300_000))
		s := newRawServer(t, on, share)
		s.mu.Lock()
		s.window = r.server
		s.mu.Unlock()
		sent := make(chan wire.AuthParams, 1)
		s.handle = func(_ *rawConn, h wire.Header, body []byte) bool {
			if h.Opcode == wire.OpAuth {
				p, err := wire.DecodeAuthParams(body)
				if err != nil {
					t.Error(err)
				}
				sent <- p
			}
			return false
		}
		c := s.connect(base.Config{MaxRDMAWindowSize: r.client})
		if _, err := openOn(t, c, "f").ReadAt(make([]byte, 300_000), 0); err != nil {
			t.Fatal(err)
		}
		if p := <-sent; int(p.MaxRdmaWindowSize) != r.client {
			t.Errorf("%+v: the client says %d", r, p.MaxRdmaWindowSize)
		}
		longest := uint32(0)
		for _, h := range (<-s.accepted).seen(wire.OpRead) {
			longest = max(longest, h.Length)
		}
		if longest != r.want {
			t.Errorf("%+v: the longest READ is for %d bytes", r, longest)
		}
	}
}

// exposing notes the memory that a client exposes.
type exposing struct {
	rdma.Provider
	mu      sync.Mutex
	exposed map[rdma.RemoteAddr]exposedRegion
}

// exposedRegion is a region that others may reach.
type exposedRegion struct {
	size   int
	access rdma.Access
}

func (p *exposing) OpenAdapter(ctx context.Context, local netip.Addr) (rdma.Adapter, error) {
	a, err := p.Provider.OpenAdapter(ctx, local)
	return lendingAdapter{a, p}, err
}

type lendingAdapter struct {
	rdma.Adapter
	p *exposing
}

func (a lendingAdapter) RegisterMemory(ctx context.Context, buf []byte, access rdma.Access) (rdma.MemoryRegion, error) {
	mr, err := a.Adapter.RegisterMemory(ctx, buf, access)
	if err == nil {
		a.p.note(mr.RemoteAddr(), exposedRegion{len(buf), access})
	}
	return mr, err
}

func (p *exposing) note(at rdma.RemoteAddr, r exposedRegion) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exposed[at] = r
}

func (p *exposing) of(h wire.Header) exposedRegion {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exposed[rdma.RemoteAddr{Addr: h.DataVa, Token: rdma.RemoteToken(h.DataMh)}]
}

// Before the server has proved its identity it knows one address of the client: the address
// of a buffer for its parameters. The server may write to the buffer and not read it. After
// the parameters have been used the server has no access.
//
// Source: [LWIO §Connection Authentication], [OP-48], [OP-49], [OP-100]
func TestAuthExposesOneBuffer(t *testing.T) { onEach(t, testAuthExposesOneBuffer) }

func testAuthExposesOneBuffer(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(3000))
	s := newRawServer(t, on, share)
	provider := &exposing{exposed: make(map[rdma.RemoteAddr]exposedRegion)}
	for _, p := range defaults() {
		if p.Name() == on {
			provider.Provider = p
		}
	}
	asked := make(chan wire.Header, 1)
	s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
		switch h.Opcode {
		case wire.OpAuth:
			if r := provider.of(h); r.size != wire.AuthBufferSize || r.access != rdma.AccessRemoteWrite {
				t.Errorf("AUTH exposes %+v", r)
			}
			asked <- h
		case wire.OpRead:
			auth := <-asked
			c.write(auth.DataVa, auth.DataMh, []byte("late"))
		}
		return false
	}
	c := s.connect(base.Config{Providers: []rdma.Provider{provider}, Credits: 4})
	f := openOn(t, c, "f")
	if n, err := f.ReadAt(make([]byte, 3000), 0); n != 3000 || err != nil {
		t.Error(n, err)
	}
	waitFor(t, func() bool { return !c.Transport().RDMA() })
}

// The client asks for no RDMA reads and sends no private data; and the addresses that it
// exposes are the transport's, not its own.
//
// Source: [OP-18], [OP-102], [OP-104]
func TestClientExposesTransportAddresses(t *testing.T) {
	onEach(t, testClientExposesTransportAddresses)
}

func testClientExposesTransportAddresses(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(100_000))
	s := newRawServer(t, on, share)
	c := s.connect(base.Config{})
	f := openOn(t, c, "f")
	conn := <-s.accepted
	if limits, err := conn.connector.ReadLimits(); err != nil || limits != (rdma.ReadLimits{}) {
		t.Errorf("the client offers %+v, %v", limits, err)
	}
	if private, err := conn.connector.PrivateData(); err != nil || len(private) != 0 {
		t.Errorf("the client sends private data %x, %v", private, err)
	}
	buf := allocate(t, c, 8192)
	for _, p := range [][]byte{buf.Bytes(), make([]byte, 5000), make([]byte, 100)} {
		before := len(conn.seen(wire.OpRead))
		if n, err := f.ReadAt(p, 0); n != len(p) || err != nil {
			t.Fatal(n, err)
		}
		h := conn.seen(wire.OpRead)[before]
		if own := uint64(reflect.ValueOf(p).Pointer()); h.DataVa == own || h.DataMh == 0 {
			t.Errorf("the client exposes address %#x, handle %#x; the memory is at %#x", h.DataVa, h.DataMh, own)
		}
	}
}

// A read of less than a kilobyte, or of the configured size, is placed in a buffer that is
// always registered, and is copied; a longer one is placed in the memory of the caller,
// which is registered for it. Memory of a Buffer is registered already.
//
// Source: [LWIO §Read], [OP-91]
func TestSmallReadsAreCopied(t *testing.T) { onEach(t, testSmallReadsAreCopied) }

func testSmallReadsAreCopied(t *testing.T, on string) {
	share := newFakeShare()
	want := pattern(200_000)
	share.put("f", want)
	for _, r := range []struct{ small, copied int }{{0, 1023}, {1, 1}, {100, 100}, {64 << 10, 64 << 10}, {1 << 20, 64 << 10}} {
		s := newRawServer(t, on, share)
		c := s.connect(base.Config{CopyThreshold: r.small, Credits: 8})
		f, conn := openOn(t, c, "f"), <-s.accepted
		if _, err := f.ReadAt(make([]byte, 1), 0); err != nil {
			t.Fatal(err)
		}
		bounce := conn.seen(wire.OpRead)[0].DataMh // of the memory that small reads are copied from
		buf := allocate(t, c, 1000)
		for _, p := range [][]byte{make([]byte, 1), make([]byte, r.copied), make([]byte, r.copied+1), make([]byte, 70_000), buf.Bytes()} {
			before := len(conn.seen(wire.OpRead))
			if n, err := f.ReadAt(p, 9); n != len(p) || err != nil || !bytes.Equal(p, want[9:][:n]) {
				t.Fatalf("%+v: read of %d: %d, %v", r, len(p), n, err)
			}
			h := conn.seen(wire.OpRead)[before]
			small := len(p) <= r.copied && &p[0] != &buf.Bytes()[0]
			if (h.DataMh == bounce) != small {
				t.Errorf("%+v: a read of %d bytes lands in the client's own buffer: %v", r, len(p), !small)
			}
		}
	}
}
