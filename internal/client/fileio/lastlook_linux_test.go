package fileio

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/rdma/rdmatest/fault"
	"lwio/rdma/shm"
)

// A poller looks once more between INTERRUPT and its sleep: an answer that came in between is
// seen, though the server, which has nothing outstanding any more, wakes no caller.
//
// Source: [LWIO §Wakeup], [LWIO claim 21], [OP-93b]
func TestPollerLooksBetweenInterruptAndSleep(t *testing.T) {
	want := pattern(10_000)
	s := pollingServer(t, "shm", map[string][]byte{"f": want})
	var held atomic.Pointer[func()]
	var beforeSleep atomic.Bool // a poller that is about to sleep sends the INTERRUPT
	s.handle = func(c *rawConn, h wire.Header, body []byte) bool {
		if h.Opcode == wire.OpRead {
			answer := func() { c.answer(h, body) }
			held.Store(&answer)
		}
		return h.Opcode == wire.OpRead || h.Opcode == wire.OpInterrupt && beforeSleep.Load()
	}
	var interrupts atomic.Int64
	var block atomic.Pointer[atomic.Uint64] // the status block of the read
	regions := new(regionTable)
	between := func(a fault.Attempt) fault.Action {
		if a.Request.Op != rdma.OpSend {
			return fault.Pass()
		}
		g := a.Request.SGL[0]
		var h wire.Header
		if h.Decode(g.Region.Bytes()[g.Offset:][:wire.HeaderSize]) != nil {
			return fault.Pass()
		}
		if h.Opcode == wire.OpRead && h.Flags&wire.FlagInterrupt == 0 {
			block.Store(regions.word(h.IosVa, h.IosMh))
		}
		if h.Opcode != wire.OpInterrupt {
			return fault.Pass()
		}
		// A call that finds the poller asleep sends INTERRUPT too, and sleeps elsewhere.
		stack := make([]byte, 16<<10)
		beforeSleep.Store(bytes.Contains(stack[:runtime.Stack(stack, false)], []byte("doze(")))
		if !beforeSleep.Load() {
			return fault.Pass()
		}
		interrupts.Add(1)
		waitFor(t, func() bool { return held.Load() != nil })
		(*held.Load())()
		waitFor(t, func() bool { return block.Load().Load() != wire.PendingBlock().Uint64() }) // it is there
		return fault.Pass()
	}
	c := s.connect(base.Config{Timeout: 2 * time.Minute, Providers: []rdma.Provider{fault.Wrap(regionProvider{shm.New(nil), regions}, &fault.Config{Fault: between})}})
	f := openOn(t, c, "f")
	for end := time.Now().Add(waitLimit); interrupts.Load() == 0; {
		if c.Live() == nil || time.Now().After(end) {
			t.Fatalf("no poller fell asleep: %v", c.Transport())
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // before the watchdog looks
		held.Store(nil)
		answered := time.AfterFunc(100*time.Millisecond, func() {
			if answer := held.Load(); answer != nil && interrupts.Load() == 0 {
				(*answer)()
			}
		})
		p := make([]byte, 100)
		if n, err := f.ReadAtContext(ctx, p, 7); n != len(p) || err != nil || !bytes.Equal(p, want[7:107]) {
			t.Fatalf("%d, %v", n, err)
		}
		answered.Stop()
		cancel()
	}
}

// regionTable has the registered memory of a client by its handle. Safe for concurrent use.
type regionTable struct{ regions sync.Map }

// word is a word of registered memory, where a server finds it.
func (r *regionTable) word(addr uint64, handle uint32) *atomic.Uint64 {
	mr, ok := r.regions.Load(handle)
	if !ok {
		return nil
	}
	region := mr.(rdma.MemoryRegion)
	return wordOf(region.Bytes()[addr-region.RemoteAddr().Addr:])
}

// regionProvider notes the memory that is registered.
type regionProvider struct {
	rdma.Provider
	table *regionTable
}

func (p regionProvider) OpenAdapter(ctx context.Context, local netip.Addr) (rdma.Adapter, error) {
	a, err := p.Provider.OpenAdapter(ctx, local)
	if err != nil {
		return nil, err
	}
	return regionAdapter{a, p.table}, nil
}

type regionAdapter struct {
	rdma.Adapter
	table *regionTable
}

func (a regionAdapter) RegisterMemory(ctx context.Context, p []byte, access rdma.Access) (rdma.MemoryRegion, error) {
	mr, err := a.Adapter.RegisterMemory(ctx, p, access)
	if err == nil {
		a.table.regions.Store(uint32(mr.RemoteAddr().Token), mr)
	}
	return mr, err
}

// tamperProvider changes the memory that AUTH's answer comes to at the last moment at which a
// peer could: when its region is closed.
type tamperProvider struct{ rdma.Provider }

func (p tamperProvider) OpenAdapter(ctx context.Context, local netip.Addr) (rdma.Adapter, error) {
	a, err := p.Provider.OpenAdapter(ctx, local)
	if err != nil {
		return nil, err
	}
	return tamperAdapter{a}, nil
}

type tamperAdapter struct{ rdma.Adapter }

func (a tamperAdapter) RegisterMemory(ctx context.Context, p []byte, access rdma.Access) (rdma.MemoryRegion, error) {
	mr, err := a.Adapter.RegisterMemory(ctx, p, access)
	if err == nil && len(p) == wire.AuthBufferSize && access == rdma.AccessRemoteWrite {
		mr = &tamperRegion{MemoryRegion: mr, memory: p}
	}
	return mr, err
}

type tamperRegion struct {
	rdma.MemoryRegion
	memory []byte
	once   sync.Once
}

func (r *tamperRegion) Close() error {
	r.once.Do(func() {
		for i := range r.memory {
			r.memory[i] ^= 1
		}
	})
	return r.MemoryRegion.Close()
}

// The answer to AUTH is inspected only when the server cannot change it any more.
//
// Source: [LWIO §Connection Authentication], [OP-46]
func TestAuthIsInspectedAfterItsMemoryIsTakenBack(t *testing.T) {
	share := newFakeShare()
	s := newRawServer(t, "shm", share)
	_, err := s.dial(&base.Config{RequireRDMA: true, Providers: []rdma.Provider{tamperProvider{shm.New(nil)}}})
	if !errors.Is(err, base.ErrSpoofed) && !errors.Is(err, base.ErrProtocol) {
		t.Errorf("memory that changed until it was taken back was believed: %v", err)
	}
}
