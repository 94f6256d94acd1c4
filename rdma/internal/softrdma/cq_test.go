package softrdma

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lwio/rdma"
)

func newQueue(t testing.TB, depth int) *CompletionQueue {
	t.Helper()
	d := NewDomain("soft")
	q, err := d.CreateCompletionQueue(depth)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return q.(*CompletionQueue)
}

var (
	plainResult     = rdma.Result{Op: rdma.OpSend}
	solicitedResult = rdma.Result{Op: rdma.OpReceive, Solicited: true}
	failedResult    = rdma.Result{Op: rdma.OpSend, Status: rdma.StatusCanceled}
)

// notifying is a Wait in a goroutine that has begun to wait.
type notifying struct {
	cancel context.CancelFunc
	done   chan error
}

func startNotify(t testing.TB, q *CompletionQueue, kind rdma.NotifyKind) notifying {
	t.Helper()
	waiting := func() int { q.mu.Lock(); defer q.mu.Unlock(); return len(q.waiters) }
	before := waiting()
	ctx, cancel := context.WithCancel(context.Background())
	n := notifying{cancel, make(chan error, 1)}
	t.Cleanup(cancel)
	go func() { n.done <- q.Wait(ctx, kind) }()
	for end := time.Now().Add(testTimeout); waiting() == before; {
		if time.Now().After(end) {
			t.Fatal("does not wait")
		}
	}
	return n
}

func (n notifying) waits(t testing.TB) {
	t.Helper()
	select {
	case err := <-n.done:
		t.Errorf("returned: %v", err)
	default:
	}
}

// Source: [ND CompletionQueue.Notify]
func TestWaitEndsOnlyForItsKind(t *testing.T) {
	for name, c := range map[string]struct {
		kind   rdma.NotifyKind
		result rdma.Result
		wakes  bool
	}{
		"any, plain":           {rdma.NotifyAny, plainResult, true},
		"any, solicited":       {rdma.NotifyAny, solicitedResult, true},
		"any, failure":         {rdma.NotifyAny, failedResult, true},
		"solicited, plain":     {rdma.NotifySolicited, plainResult, false},
		"solicited, solicited": {rdma.NotifySolicited, solicitedResult, true},
		"solicited, failure":   {rdma.NotifySolicited, failedResult, true},
		"errors, plain":        {rdma.NotifyErrors, plainResult, false},
		"errors, failure":      {rdma.NotifyErrors, failedResult, false},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t, 8)
			n := startNotify(t, q, c.kind)
			q.Push([]rdma.Result{c.result})
			if c.wakes {
				if err := <-n.done; err != nil {
					t.Error(err)
				}
				// It has ended one wait and ends no other.
				startNotify(t, q, c.kind).waits(t)
				return
			}
			n.waits(t)
			n.cancel()
			if err := <-n.done; !errors.Is(err, context.Canceled) || !errors.Is(err, rdma.StatusCanceled) {
				t.Error(err)
			}
		})
	}
}

// Results that arrived before a call of Wait end it, and no later call.
//
// Source: [ND CompletionQueue.Notify]
func TestEarlierResultsEndTheNextWaitOnce(t *testing.T) {
	ctx := context.Background()
	q := newQueue(t, 8)
	q.Push([]rdma.Result{plainResult, plainResult})
	if err := q.Wait(ctx, rdma.NotifyAny); err != nil {
		t.Fatal(err)
	}
	startNotify(t, q, rdma.NotifyAny).waits(t)

	q = newQueue(t, 8)
	q.Push([]rdma.Result{plainResult, solicitedResult, plainResult})
	if err := q.Wait(ctx, rdma.NotifySolicited); err != nil {
		t.Fatal(err)
	}
	n := startNotify(t, q, rdma.NotifySolicited)
	// The plain results have ended no wait. While a NotifyAny waits, NotifySolicited
	// counts as NotifyAny.
	if err := q.Wait(ctx, rdma.NotifyAny); err != nil {
		t.Fatal(err)
	}
	if err := <-n.done; err != nil {
		t.Error(err)
	}

	q = newQueue(t, 8)
	q.Push([]rdma.Result{plainResult})
	if n, err := q.Poll(make([]rdma.Result, 4)); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	startNotify(t, q, rdma.NotifyAny).waits(t) // polled results end no wait
}

// Source: [ND CompletionQueue.Notify], [ND ndcq]
func TestResultEndsAllWaits(t *testing.T) {
	q := newQueue(t, 8)
	var all []notifying
	for range 3 {
		all = append(all, startNotify(t, q, rdma.NotifyAny))
	}
	solicited := startNotify(t, q, rdma.NotifySolicited)
	failures := startNotify(t, q, rdma.NotifyErrors)
	all[1].cancel()
	if err := <-all[1].done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	q.Push([]rdma.Result{plainResult})
	for _, n := range []notifying{all[0], all[2], solicited} {
		if err := <-n.done; err != nil {
			t.Error(err)
		}
	}
	failures.waits(t)
	q.Close()
	if err := <-failures.done; rdma.StatusOf(err) != rdma.StatusCanceled {
		t.Error(err)
	}
	if n, err := q.Poll(make([]rdma.Result, 1)); n != 1 || err != nil {
		t.Error("a result was lost by Close:", n, err)
	}
	if n, err := q.Poll(make([]rdma.Result, 1)); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Error(n, err)
	}
	if err := q.Wait(context.Background(), rdma.NotifyAny); rdma.StatusOf(err) != rdma.StatusCanceled {
		t.Error(err)
	}
	if q.Close() != nil {
		t.Error("second Close")
	}
}

// The queue agrees with a list under random operations.
//
// Source: [ND CompletionQueue.Resize], [ND CompletionQueue.GetResults]
func TestCompletionQueueAgreesWithList(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		q := newQueue(t, 40)
		var model []uint64
		depth, next := 40, uint64(0)
		rt.Repeat(map[string]func(*rapid.T){
			"push": func(rt *rapid.T) {
				n := min(rapid.IntRange(0, 10).Draw(rt, "n"), depth-len(model))
				var rs []rdma.Result
				for range n {
					rs = append(rs, rdma.Result{ID: next})
					model = append(model, next)
					next++
				}
				q.Push(rs)
			},
			"poll": func(rt *rapid.T) {
				rs := make([]rdma.Result, rapid.IntRange(0, 20).Draw(rt, "n"))
				n, err := q.Poll(rs)
				if err != nil || n != min(len(rs), len(model)) {
					rt.Fatal(n, err, len(model))
				}
				for i := range n {
					if rs[i].ID != model[i] {
						rt.Fatal("out of order")
					}
				}
				model = model[n:]
			},
			"resize": func(rt *rapid.T) {
				n := rapid.IntRange(1, 200).Draw(rt, "depth")
				err := q.Resize(n)
				if (err == nil) != (n >= len(model)) {
					rt.Fatal(err)
				}
				if err == nil {
					depth = n
				} else if rdma.StatusOf(err) != rdma.StatusBufferOverflow {
					rt.Fatal(err)
				}
			},
		})
	})
}

// No goroutine hangs under concurrent pushes and polls.
//
// Source: [ND CompletionQueue.Notify]
func TestConcurrentPushesLoseNoWakeUp(t *testing.T) {
	const takers, count = 4, 2000
	q := newQueue(t, count+takers)
	var wg sync.WaitGroup
	taken := make(chan int, takers)
	for range takers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			got := 0
			rs := make([]rdma.Result, 3)
			for {
				n, err := waitFor(t, q, rs)
				if err != nil {
					break
				}
				got += n
			}
			taken <- got
		}()
	}
	for range count {
		q.Push([]rdma.Result{plainResult})
	}
	for end := time.Now().Add(testTimeout); q.count.Load() != 0; {
		if time.Now().After(end) {
			t.Fatal("a wake-up was lost")
		}
		time.Sleep(time.Millisecond)
	}
	q.Close()
	wg.Wait()
	sum := 0
	for range takers {
		sum += <-taken
	}
	if sum != count {
		t.Errorf("%d results of %d", sum, count)
	}
}
