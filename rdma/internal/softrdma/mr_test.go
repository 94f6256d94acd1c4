package softrdma

import (
	"errors"
	"net"
	"testing"

	"lwio/rdma"
)

// Resolve checks the token, then the rights, then the bounds.
//
// Source: [RFC 5041 §7], [RFC 5042 §6.3]
func TestResolveChecksTokenRightsAndBounds(t *testing.T) {
	d := newDomain(t)
	l, other, foreign := newWindowHost(t, d), newWindowHost(t, d), newWindowHost(t, newDomain(t))
	w, v, f := l.window(), other.window(), foreign.window()
	l.bind(w, 100, 50, true)
	other.bind(v, 0, 50, true)
	foreign.bind(f, 0, 50, true)
	closed := d.register(t, 64, rdma.AccessRemoteWrite)
	at := closed.RemoteAddr()
	closed.Close()
	read := rdma.AccessRemoteRead
	for name, c := range map[string]struct {
		at    rdma.RemoteAddr
		off   int64
		n     uint64
		right rdma.Access
		want  Refusal
	}{
		"all of a region":               {l.region.RemoteAddr(), 0, 4096, rdma.AccessRemoteWrite, Granted},
		"more than a region":            {l.region.RemoteAddr(), 0, 4097, rdma.AccessRemoteWrite, OutOfBounds},
		"before a region":               {l.region.RemoteAddr(), -1, 1, rdma.AccessRemoteWrite, OutOfBounds},
		"past the address space":        {l.region.RemoteAddr(), 0, ^uint64(0), rdma.AccessRemoteWrite, Wraps},
		"rights before bounds":          {l.region.RemoteAddr(), 0, ^uint64(0), read, Denied},
		"another pair's region":         {other.region.RemoteAddr(), 0, 1, rdma.AccessRemoteWrite, Granted},
		"another domain's region":       {foreign.region.RemoteAddr(), 0, 1, rdma.AccessRemoteWrite, BadToken},
		"a closed region":               {at, 0, 1 << 40, read, BadToken},
		"all of a window":               {w.RemoteAddr(), 0, 50, rdma.AccessRemoteWrite | read, Granted},
		"more than a window":            {w.RemoteAddr(), 0, 51, read, OutOfBounds},
		"before a window":               {w.RemoteAddr(), -1, 1, read, OutOfBounds},
		"another pair's window":         {v.RemoteAddr(), 0, 1 << 40, read, BadToken},
		"another domain's window":       {f.RemoteAddr(), 0, 1, read, BadToken},
		"a window's token, one bit off": {rdma.RemoteAddr{Addr: w.RemoteAddr().Addr, Token: w.RemoteAddr().Token ^ 1<<31}, 0, 1, read, BadToken},
		"zero":                          {rdma.RemoteAddr{}, 0, 1, read, BadToken},
		"one":                           {rdma.RemoteAddr{Token: 1}, 0, 1, read, BadToken},
	} {
		_, mem, got := l.Resolve(uint32(c.at.Token), c.at.Addr+uint64(c.off), c.n, c.right)
		if got != c.want || (got == Granted) != (uint64(len(mem)) == c.n) {
			t.Errorf("%s: refusal %d with %d bytes, want %d", name, got, len(mem), c.want)
		}
	}
}

// The cached region of a connection does not change the peer's access to other regions,
// before and after the cached region is closed.
func TestResolveFindsOtherRegionsThanTheCached(t *testing.T) {
	d := newDomain(t)
	l := newWindowHost(t, d)
	var regions []*Region
	for range 3 {
		regions = append(regions, d.register(t, 64, rdma.AccessRemoteWrite))
	}
	for closed := range regions {
		for range 2 {
			for i, r := range regions {
				want := Granted
				if i < closed {
					want = BadToken
				}
				at := r.RemoteAddr()
				grant, _, got := l.Resolve(uint32(at.Token), at.Addr, 64, rdma.AccessRemoteWrite)
				if got != want || got == Granted && grant.Region != r {
					t.Errorf("%d closed, region %d: refusal %d, want %d", closed, i, got, want)
				}
			}
		}
		regions[closed].Close()
	}
}

// A connection does not keep the memory of a closed region. A region does not keep an
// ended connection.
func TestClosedRegionIsNotCached(t *testing.T) {
	d := newDomain(t)
	first, second := newWindowHost(t, d), newWindowHost(t, d)
	name := func(l *windowHost, r *Region) {
		t.Helper()
		at := r.RemoteAddr()
		if _, _, got := l.Resolve(uint32(at.Token), at.Addr, 64, rdma.AccessRemoteWrite); got != Granted {
			t.Fatalf("refusal %d", got)
		}
	}
	region := d.register(t, 64, rdma.AccessRemoteWrite)
	name(first, region)
	name(second, region)
	if first.cached.Load() != region || second.cached.Load() != nil {
		t.Error("the region is not that of the first connection alone")
	}
	first.RevokeAll()
	if first.cached.Load() != nil || region.cachedBy.Load() != nil {
		t.Error("the connection is over, and the region is its cached one")
	}
	name(second, region)
	if second.cached.Load() != region {
		t.Error("the region is not that of the next connection")
	}
	if err := region.Close(); err != nil {
		t.Fatal(err)
	}
	if second.cached.Load() != nil || region.cachedBy.Load() != nil {
		t.Error("the region is closed, and the cached one of a connection")
	}
}

// fence is a Backing that records a Withdraw.
type fence struct {
	withdrawn int
	err       error
}

func (f *fence) Withdraw(*Region) error { f.withdrawn++; return f.err }

// Close makes the token invalid at once, and waits for accesses to the memory in this
// process and in the peer.
//
// Source: [RFC 5042 §6.3.3], [ND MemoryRegion.Deregister]
func TestRegionCloseWaitsForAccesses(t *testing.T) {
	d := newDomain(t)
	l := newWindowHost(t, d)
	f := &fence{}
	m, err := d.RegisterMemory(t.Context(), make([]byte, 64), rdma.AccessRemoteWrite, f)
	if err != nil {
		t.Fatal(err)
	}
	at := m.RemoteAddr()
	grant, _, refused := l.Resolve(uint32(at.Token), at.Addr, 64, rdma.AccessRemoteWrite)
	if refused != Granted || grant.Region.Backing() != f || !grant.Acquire() {
		t.Fatal(refused)
	}
	gone := make(chan struct{})
	go func() { defer close(gone); m.Close() }()
	for l.reach(at) == Granted {
	}
	if grant.Acquire() {
		t.Error("a reference to a closed region")
	}
	grant.Release()
	<-gone
	if m.Close(); f.withdrawn != 1 {
		t.Error(f.withdrawn, "withdrawals")
	}
	closeRefused(t, d)
	sgl := []rdma.SGE{{Region: m, Length: 1}}
	if _, status := d.CheckSGL(sgl, 1, 0); status != rdma.StatusAccessViolation {
		t.Error("a closed region in a list:", status)
	}
}

// closeRefused checks that a region stays open until the peer releases it.
func closeRefused(t *testing.T, d *Domain) {
	f := &fence{err: errors.New("the peer stays")}
	m, err := d.RegisterMemory(t.Context(), make([]byte, 64), rdma.AccessRemoteWrite, f)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.Close(); rdma.StatusOf(err) != rdma.StatusDeviceBusy {
			t.Error("close while a peer stays:", err)
		}
	}
	f.err = nil
	if err := errors.Join(m.Close(), m.Close()); err != nil || f.withdrawn != 3 {
		t.Error(err, f.withdrawn)
	}
}

// Source: [ND Adapter.CreateMemoryRegion]
func TestRegisterRefusesInvalidBuffers(t *testing.T) {
	d := newDomain(t)
	for what, c := range map[string]struct {
		buf  []byte
		want rdma.Status
	}{"nil": {nil, rdma.StatusInvalidParameter}, "no bytes": {[]byte{}, rdma.StatusInvalidBufferSize}} {
		if _, err := d.RegisterMemory(t.Context(), c.buf, 0, nil); rdma.StatusOf(err) != c.want {
			t.Error(what, err)
		}
	}
	d.Close()
	_, err := d.RegisterMemory(t.Context(), make([]byte, 1), 0, nil)
	_, err2 := d.CreateMemoryWindow()
	if !errors.Is(err, net.ErrClosed) || !errors.Is(err2, net.ErrClosed) {
		t.Error(err, err2)
	}
}
