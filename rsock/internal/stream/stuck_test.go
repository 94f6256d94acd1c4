package stream

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"lwio/rdma"
)

// stuckProvider is a provider whose peer keeps writable memory while hold is set, as if its process
// were stopped during a write.
type stuckProvider struct {
	rdma.Provider
	hold   atomic.Bool
	kept   atomic.Int64 // closes of regions that failed
	closed atomic.Int64 // memories of Alloc

	mu   sync.Mutex // guards the fields below
	mems []*keptMemory
	most int // regions on one memory of Alloc at a time
}

func (k *stuckProvider) OpenAdapter(ctx context.Context, local netip.Addr) (rdma.Adapter, error) {
	a, err := k.Provider.OpenAdapter(ctx, local)
	return stuckAdapter{a, k}, err
}

type stuckAdapter struct {
	rdma.Adapter
	k *stuckProvider
}

func (a stuckAdapter) Alloc(ctx context.Context, size int) (rdma.Memory, error) {
	m, err := a.Adapter.Alloc(ctx, size)
	if err != nil {
		return nil, err
	}
	kept := &keptMemory{Memory: m, k: a.k}
	a.k.mu.Lock()
	defer a.k.mu.Unlock()
	a.k.mems = append(a.k.mems, kept)
	return kept, nil
}

func (a stuckAdapter) RegisterMemory(ctx context.Context, buf []byte, access rdma.Access) (rdma.MemoryRegion, error) {
	r, err := a.Adapter.RegisterMemory(ctx, buf, access)
	if err != nil {
		return nil, err
	}
	a.k.mu.Lock()
	defer a.k.mu.Unlock()
	i := slices.IndexFunc(a.k.mems, func(m *keptMemory) bool { return &m.Bytes()[0] == &buf[0] })
	if i >= 0 {
		a.k.mems[i].regions++
		a.k.most = max(a.k.most, a.k.mems[i].regions)
	}
	if !access.Has(rdma.AccessRemoteWrite) {
		return r, nil // requests name it, so it cannot be wrapped
	}
	kept := &keptRegion{MemoryRegion: r, k: a.k}
	if i >= 0 {
		kept.mem = a.k.mems[i]
	}
	return kept, nil
}

type keptMemory struct {
	rdma.Memory
	k       *stuckProvider
	regions int // guarded by k.mu; only closes of regions that the peer may write are counted
}

func (m *keptMemory) Close() error {
	m.k.closed.Add(1)
	return m.Memory.Close()
}

type keptRegion struct {
	rdma.MemoryRegion
	k   *stuckProvider
	mem *keptMemory // or nil
}

func (r *keptRegion) Close() error {
	if r.k.hold.Load() {
		r.k.kept.Add(1)
		return rdma.StatusDeviceBusy
	}
	r.k.mu.Lock()
	if r.mem != nil {
		r.mem.regions--
		r.mem = nil
	}
	r.k.mu.Unlock()
	return r.MemoryRegion.Close()
}

// TestMemoryKeptByPeerIsNotReused has a side that cannot read. Its peer keeps the memory
// that it wrote to: the memory is not read, not used again and not closed before the socket.
//
// Source: [WSD §5.3], [WSD §6]
func TestMemoryKeptByPeerIsNotReused(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		k := &stuckProvider{Provider: f.provider()}
		f.provider = func() rdma.Provider { return k }
		s, r := greeted(t, f, Config{NoRead: true}, true)
		data := pattern(1000)
		read := make(chan error, 1)
		buf := make([]byte, 100) // not enough to be fetched into
		go func() {
			_, err := s.Read(buf)
			read <- err
		}()
		r.sendMessage(Message{Type: TypeOffer, Credits: 1, Transfer: 1, Total: uint64(len(data))})
		ready := r.receive(TypeReady)
		k.hold.Store(true)
		r.sendMessage(Message{Type: TypeDone, Credits: 1, Transfer: 1, Total: ready.Total})
		if err := <-read; !errors.Is(err, rdma.StatusDeviceBusy) {
			t.Errorf("read of memory that stays with the peer: %v", err)
		}
		if k.kept.Load() == 0 {
			t.Fatal("the memory was not deregistered")
		}
		for range 3 {
			s.trimmer.run()
		}
		if n := k.closed.Load(); n > 0 {
			t.Errorf("%d memories were closed that the peer may write", n)
		}
		if k.most != 1 {
			t.Errorf("%d regions were on the memory at a time, so that its pages could not be replaced", k.most)
		}
		k.hold.Store(false)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestStageKeptByPeerEndsStream has the peer keep a piece of the stage after another piece
// could not be registered: the stream ends, because it can offer no more data.
//
// Source: [WSD §5.4], [WSD §6]
func TestStageKeptByPeerEndsStream(t *testing.T) {
	a, _ := pair(t, fabrics()[0], setup{wrap: func(p rdma.Provider) rdma.Provider { return &halfStage{Provider: p} }})
	if _, err := a.Write(pattern(100000)); !errors.Is(err, ErrNoBuffers) {
		t.Errorf("first write: %v", err)
	}
	if _, err := a.Write(pattern(100000)); !errors.Is(err, ErrReset) {
		t.Errorf("second write: %v", err)
	}
}

// halfStage is a provider that does not register the second region that a peer may read, and
// does not close the first at the first attempt.
type halfStage struct {
	rdma.Provider
}

func (h *halfStage) OpenAdapter(ctx context.Context, local netip.Addr) (rdma.Adapter, error) {
	a, err := h.Provider.OpenAdapter(ctx, local)
	return &halfStageAdapter{Adapter: a}, err
}

type halfStageAdapter struct {
	rdma.Adapter
	readable atomic.Int64
}

func (a *halfStageAdapter) RegisterMemory(ctx context.Context, buf []byte, access rdma.Access) (rdma.MemoryRegion, error) {
	if !access.Has(rdma.AccessRemoteRead) {
		return a.Adapter.RegisterMemory(ctx, buf, access)
	}
	if a.readable.Add(1) == 2 {
		return nil, rdma.StatusInsufficientResources
	}
	r, err := a.Adapter.RegisterMemory(ctx, buf, access)
	return &reluctant{MemoryRegion: r}, err
}

// reluctant is a region whose first Close fails.
type reluctant struct {
	rdma.MemoryRegion
	asked atomic.Bool
}

func (r *reluctant) Close() error {
	if !r.asked.Swap(true) {
		return rdma.StatusDeviceBusy
	}
	return r.MemoryRegion.Close()
}
