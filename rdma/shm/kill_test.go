//go:build linux

package shm

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lwio/internal/test/leakcheck"
	"lwio/rdma"
)

// childChaos carries out all operations of a peer, in random order and without end, until
// it is killed.
func childChaos(ctx context.Context, a rdma.Adapter, cq rdma.CompletionQueue, qp rdma.QueuePair, region rdma.MemoryRegion, peer rdma.RemoteAddr) error {
	sge := func(n int) []rdma.SGE { return []rdma.SGE{{Region: region, Offset: 64, Length: n}} }
	var res [32]rdma.Result
	for begun := false; !begun; { // until the peer asks for it
		n, err := cq.Poll(res[:])
		if err != nil {
			return err
		}
		for _, r := range res[:n] {
			begun = begun || r.Op == rdma.OpReceive
		}
	}
	sent := 0 // requests that consumed a receive of the peer
	for {
		n := 1 + rand.IntN(20_000)
		reqs := []rdma.Request{
			{Op: rdma.OpWrite, Flags: rdma.FlagInline, Inline: make([]byte, 8), Remote: peer},
			{Op: rdma.OpWrite, SGL: sge(n), Remote: peer},
			{Op: rdma.OpRead, SGL: sge(n), Remote: peer},
			{Op: rdma.OpSend, Flags: silent(n), SGL: sge(n % 64)},
			{Op: rdma.OpWrite, Flags: rdma.FlagImmediate, SGL: sge(n), Remote: peer},
		}
		if sent == parentReceives/2 {
			reqs = reqs[:3]
		}
		k := rand.IntN(len(reqs))
		if k >= 3 {
			sent++
		}
		if _, err := qp.Post(reqs[k : k+1]); err != nil && !errors.Is(err, rdma.StatusNoMoreEntries) {
			return nil
		}
		switch rand.IntN(200) {
		case 0: // sleeps for some time
			nap, cancel := context.WithTimeout(ctx, time.Millisecond)
			_ = cq.Wait(nap, rdma.NotifyAny)
			cancel()
		case 1: // exports other memory, which is then closed
			if err := chaosMemory(ctx, a); err != nil {
				return err
			}
		}
		got, err := cq.Poll(res[:])
		if err != nil {
			return err
		}
		for _, r := range res[:got] {
			if r.Op == rdma.OpReceive && r.Status == rdma.StatusSuccess {
				_, _ = qp.PostReceive([]rdma.ReceiveRequest{{SGL: sge(64)}})
			}
		}
	}
}

// silent returns FlagSilentSuccess for every other number.
func silent(n int) rdma.Flags {
	if n%2 == 0 {
		return 0
	}
	return rdma.FlagSilentSuccess
}

// chaosMemory allocates and registers memory, and closes it.
func chaosMemory(ctx context.Context, a rdma.Adapter) error {
	m, err := a.Alloc(ctx, 1<<16)
	if err != nil {
		return err
	}
	r, err := a.RegisterMemory(ctx, m.Bytes(), readable)
	if err == nil {
		err = r.Close()
	}
	return errors.Join(err, m.Close())
}

// victimSends is the number of messages that the victim sends. The child has posted
// receives for them.
const victimSends = 12

// victim exchanges requests with the child until the connection ends. It writes and
// reads, and waits in Wait on the other queue.
func (s *side) victim(at rdma.RemoteAddr) *sync.WaitGroup {
	var wg sync.WaitGroup
	wg.Go(func() {
		var res [32]rdma.Result
		for i := 0; ; i++ {
			reqs := []rdma.Request{
				{Op: rdma.OpWrite, SGL: s.sge(0, 1<<14), Remote: at},
				{Op: rdma.OpRead, SGL: s.sge(1<<14, 1<<14), Remote: at},
				{Op: rdma.OpWrite, SGL: s.sge(0, 8), Remote: at},
			}
			k := i % 3
			if i%8 == 7 && i < 8*victimSends {
				reqs[k] = rdma.Request{Op: rdma.OpSend, Flags: rdma.FlagSilentSuccess}
			}
			_, err := s.qp.Post(reqs[k : k+1])
			if err != nil && !errors.Is(err, rdma.StatusNoMoreEntries) {
				return
			}
			if _, err := s.icq.Poll(res[:]); err != nil {
				return
			}
		}
	})
	wg.Go(func() {
		var res [32]rdma.Result
		for {
			n, err := s.rcq.Poll(res[:])
			if err == nil && n == 0 {
				err = s.rcq.Wait(context.Background(), rdma.NotifyAny)
			}
			if err != nil {
				return
			}
			for _, r := range res[:n] {
				if r.Status != rdma.StatusSuccess {
					return
				}
				if _, err := s.qp.PostReceive([]rdma.ReceiveRequest{{SGL: s.sge(1<<15, 64)}}); err != nil {
					return
				}
			}
		}
	})
	return &wg
}

// The other process is killed at random moments, with both ways of sleeping. The end is
// detected, and no resources remain.
//
// Source: design decision 11, [OP-94g]
func TestKilledPeerEndsConnection(t *testing.T) {
	rounds := 150
	if testing.Short() || raceEnabled {
		rounds = 6
	}
	for name := range sleepWays {
		t.Run(name, func(t *testing.T) {
			t.Setenv("SHM_TEST_SLEEP", name)
			before := named(t)
			for range rounds {
				kill(t)
			}
			if after := named(t); after != before {
				t.Errorf("files: %s, before: %s", after, before)
			}
		})
	}
}

// kill kills a child at a random moment after it has connected.
func kill(t *testing.T) {
	snapshot := leakcheck.Take()
	s, c, at := parent(t, "chaos")
	s.post(t, rdma.Request{Op: rdma.OpSend})
	play := s.victim(at)
	time.Sleep(time.Duration(rand.IntN(8000)) * time.Microsecond) // a random moment
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := ends(t, s.conn); !errors.Is(err, rdma.StatusConnectionAborted) {
		t.Errorf("a peer that was killed: %v", err)
	}
	play.Wait()
	_ = c.cmd.Wait()
	s.a.Close()
	c.in.Close()
	if err := snapshot.Err(); err != nil {
		t.Error(err)
	}
}

// The other process is killed while it starts and connects. Source: design decision 11
func TestPeerKilledDuringConnectLeaksNothing(t *testing.T) {
	rounds := 60
	if testing.Short() || raceEnabled {
		rounds = 4
	}
	for range rounds {
		snapshot := leakcheck.Take()
		s := newSide(t, nil, 4096)
		l, addr := s.listen(t)
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- s.serve(ctx, l) }()
		c := spawn(t, "chaos", addr, s.at(64))
		time.Sleep(time.Duration(rand.IntN(30_000)) * time.Microsecond) // a random moment
		if err := c.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = c.cmd.Wait()
		cancel()
		if <-served == nil {
			_ = ends(t, s.conn)
		}
		s.a.Close()
		c.in.Close()
		if err := snapshot.Err(); err != nil {
			t.Error(err)
		}
	}
}

// named lists named objects that a provider might leave behind.
func named(tb testing.TB) string {
	tb.Helper()
	var all []string
	for _, pattern := range []string{"/dev/shm/lwio-shm*", filepath.Join(os.TempDir(), "lwio-shm*")} {
		all = append(all, must[[]string](tb)(filepath.Glob(pattern))...)
	}
	return strings.Join(all, " ")
}
