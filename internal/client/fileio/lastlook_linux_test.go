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
	var beforeSleep atomic.Bool // the INTERRUPT is that of a poller that is about to sleep
	s.handle = func(c *rawConn, h wire.Header, body []byte) bool {
		if h.Opcode == wire.OpRead {
			answer := func() { c.answer(h, body) }
			held.Store(&answer)
		}
		return h.Opcode == wire.OpRead || h.Opcode == wire.OpInterrupt && beforeSleep.Load()
	}
	var client atomic.Pointer[Client]
	var interrupts atomic.Int64
	between := func(a fault.Attempt) fault.Action {
		if a.Request.Op != rdma.OpSend {
			return fault.Pass()
		}
		g := a.Request.SGL[0]
		var h wire.Header
		if h.Decode(g.Region.Bytes()[g.Offset:][:wire.HeaderSize]) != nil || h.Opcode != wire.OpInterrupt {
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
		waitFor(t, func() bool { // it is there
			for i := range client.Load().Live().Table.Entries {
				e := &client.Load().Live().Table.Entries[i]
				if e.Op != nil && e.Block.Load() != wire.PendingBlock().Uint64() {
					return true
				}
			}
			return false
		})
		return fault.Pass()
	}
	c := s.connect(base.Config{Timeout: 2 * time.Minute, Providers: []rdma.Provider{fault.Wrap(shm.New(nil), &fault.Config{Fault: between})}})
	client.Store(c)
	f := openOn(t, c, "f")
	for interrupts.Load() == 0 {
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
