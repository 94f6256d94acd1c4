package rdmaconn

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/rdma/shm"
)

// onEach runs a test with an adapter of each provider that needs no hardware.
func onEach(t *testing.T, run func(t *testing.T, p rdma.Provider)) {
	providers := []rdma.Provider{iwarp.New(nil)}
	if runtime.GOOS == "linux" {
		providers = append(providers, shm.New(nil))
	}
	for _, p := range providers {
		t.Run(p.Name(), func(t *testing.T) { run(t, p) })
	}
}

// dialSilent makes a connection to a server that never answers.
func dialSilent(t *testing.T, p rdma.Provider, cfg ConnConfig) *Conn {
	t.Helper()
	a, err := p.OpenAdapter(t.Context(), netip.Addr{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	l, err := rdma.Listen(t.Context(), a, rdma.Addr{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	at, err := l.LocalAddr()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	accepted, served := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(served)
		if err := serveSilently(ctx, a, l, accepted); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-served
	})
	cfg.Counts, cfg.Credits, cfg.CopyThreshold = new(base.Counts), 8, 1000
	c, err := DialConn(t.Context(), p, at, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	select { // the end of the test does not interrupt the accept
	case <-accepted:
	case <-served:
	}
	return c
}

// serveSilently accepts one connection and takes its messages until ctx ends.
func serveSilently(ctx context.Context, a rdma.Adapter, l rdma.Listener, accepted chan<- struct{}) error {
	connector, err := a.CreateConnector()
	if err != nil {
		return err
	}
	defer connector.Close()
	if err := l.ConnectionRequest(ctx, connector); err != nil {
		return err
	}
	cq, err := a.CreateCompletionQueue(32)
	if err != nil {
		return err
	}
	defer cq.Close()
	qp, err := a.CreateQueuePair(rdma.QueuePairConfig{
		ReceiveCQ: cq, InitiatorCQ: cq, ReceiveDepth: 16, InitiatorDepth: 1, MaxReceiveSGE: 1, MaxInitiatorSGE: 1,
	})
	if err != nil {
		return err
	}
	defer qp.Close()
	mr, err := a.RegisterMemory(ctx, make([]byte, headerSize+CopyWrite), rdma.AccessLocalWrite)
	if err != nil {
		return err
	}
	defer mr.Close()
	for range 16 {
		sge := []rdma.SGE{{Region: mr, Length: headerSize + CopyWrite}}
		if _, err := qp.PostReceive([]rdma.ReceiveRequest{{SGL: sge}}); err != nil {
			return err
		}
	}
	if err := connector.Accept(ctx, qp, rdma.ReadLimits{}, nil); err != nil {
		return err
	}
	close(accepted)
	<-ctx.Done()
	return nil
}

// Memory that the server may write has nothing else in it, since a provider may give the server all
// of that memory.
//
// Source: [OP-111]
func TestExposedMemoryIsAlone(t *testing.T) {
	onEach(t, func(t *testing.T, p rdma.Provider) {
		a, err := p.OpenAdapter(t.Context(), netip.Addr{})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		m := messageMemory{statusSize: wire.StatusResponseSize}
		defer m.close()
		if err := m.allocate(t.Context(), a, 8, 1000); err != nil {
			t.Fatal(err)
		}
		exposed := m.exposed.Bytes()
		for name, mr := range map[string]rdma.MemoryRegion{"messages to send": m.sendMR, "answers": m.recvMR} {
			before := bytes.Clone(mr.Bytes())
			for i := range exposed {
				exposed[i] ^= 0xFF
			}
			if !bytes.Equal(before, mr.Bytes()) {
				t.Errorf("%s lie in it", name)
			}
		}
		if !m.bounceMR.Access().Has(rdma.AccessRemoteWrite) || &exposed[0] != &m.bounceMR.Bytes()[0] {
			t.Error("the server writes elsewhere")
		}
	})
}

// Each entry has memory of its own for its message and its small read, and a status block.
//
// Source: [OP-89]
func TestEntriesShareNoMemory(t *testing.T) {
	onEach(t, func(t *testing.T, p rdma.Provider) {
		c := dialSilent(t, p, ConnConfig{Timeout: time.Hour})
		if c.Pin() != nil {
			t.Fatal(c.Err())
		}
		defer c.Unpin()
		entries := c.table.entries
		for i := range entries {
			s := &entries[i]
			if len(s.send) != headerSize+CopyWrite || len(s.bounce) != 1000 {
				t.Fatalf("entry %d has %d bytes for a message, %d for a read", i, len(s.send), len(s.bounce))
			}
			if &c.memory.sendMR.Bytes()[s.sendAt] != &s.send[0] || c.BounceAddr(s).Addr != c.memory.bounceMR.RemoteAddr().Addr+uint64(s.landAt) {
				t.Errorf("entry %d is elsewhere in its region", i)
			}
			fill(s.send, byte(i))
			fill(s.bounce, byte(i))
			s.block.Store(uint64(i))
		}
		for i := range entries {
			s := &entries[i]
			if bytes.Count(s.send, []byte{byte(i)}) != len(s.send) || bytes.Count(s.bounce, []byte{byte(i)}) != len(s.bounce) || s.block.Load() != uint64(i) {
				t.Errorf("entry %d shares memory", i)
			}
		}
	})
}

func fill(p []byte, b byte) {
	for i := range p {
		p[i] = b
	}
}

// The watchdog looks often enough to end a call in time.
//
// Source: [OP-110]
func TestWatchdogLooksInTime(t *testing.T) {
	const timeout = 2 * time.Second
	begun := time.Now()
	c := dialSilent(t, iwarp.New(nil), ConnConfig{Timeout: timeout})
	waitFor(t, c, func() bool { return c.count.ticks.Load() > 0 })
	if d := time.Since(begun); d < timeout/WatchParts {
		t.Errorf("it looks after %v already", d)
	}
}

// A control call ends with its context, and its request stays taken; the end of the connection ends
// the others.
//
// Source: [OP-113]
func TestControlCallGivenUp(t *testing.T) {
	onEach(t, func(t *testing.T, p rdma.Provider) {
		c := dialSilent(t, p, ConnConfig{Timeout: time.Hour})
		if err := c.credits.granted(4); err != nil { // one is kept for INTERRUPT
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errFake)
		defer cancel()
		if _, err := c.Register(ctx, [24]byte{}, 0); !errors.Is(err, errFake) || freeRequestsOf(c) != 2 || c.Pending() != 0 {
			t.Errorf("%v, %d free, %d pending", err, freeRequestsOf(c), c.Pending())
		}
		registered := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := c.Register(t.Context(), [24]byte{}, 0)
				registered <- err
			}()
		}
		waitFor(t, c, func() bool { return freeRequestsOf(c) == 0 })
		if _, err := c.Register(ctx, [24]byte{}, 0); !errors.Is(err, errFake) {
			t.Errorf("without a credit: %v", err)
		}
		c.Fail(errFake)
		for range 2 {
			if err := <-registered; !errors.Is(err, errFake) || !base.IsLost(err) {
				t.Error(err)
			}
		}
	})
}

// A control call without a deadline ends after Config.Timeout.
//
// Source: [OP-110], [OP-113]
func TestControlCallExpires(t *testing.T) {
	onEach(t, func(t *testing.T, p rdma.Provider) {
		c := dialSilent(t, p, ConnConfig{Timeout: time.Hour})
		registered := make(chan error, 1)
		go func() {
			_, err := c.Register(t.Context(), [24]byte{}, 0)
			registered <- err
		}()
		waitFor(t, c, func() bool { return c.table.entries[0].load().state() == requestPending })
		for range WatchParts + 1 {
			c.Watch()
		}
		if err := <-registered; !errors.Is(err, ErrTimeout) || freeRequestsOf(c) != 0 {
			t.Errorf("%v, %d free", err, freeRequestsOf(c))
		}
	})
}

// The teardown ends the operations in flight with an error, and frees the memory.
func TestTeardownEndsRequests(t *testing.T) {
	onEach(t, func(t *testing.T, p rdma.Provider) {
		c := dialSilent(t, p, ConnConfig{Timeout: time.Hour})
		if err := c.Pin(); err != nil {
			t.Fatal(err)
		}
		o := postRead(t, c, 1)
		c.Unpin()
		c.Close()
		if o.unanswered != 1 || o.answers != 0 {
			t.Errorf("ended %d times, %d answers", o.unanswered, o.answers)
		}
		c.Hold()
		if _, ok := c.TakeBack(&o.Ticket); !ok {
			t.Error("the request was not taken back")
		}
		c.Unpin()
	})
}
