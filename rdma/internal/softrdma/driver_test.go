package softrdma

import (
	"slices"
	"testing"

	"lwio/rdma"
)

// fakePair pushes a result at each of the next Looks, and records calls.
type fakePair struct {
	q      *CompletionQueue
	give   int
	looks  int
	hot    bool
	sleeps int
	failed error
}

func (p *fakePair) Look(hot bool, _ Poller) int {
	p.looks++
	p.hot = hot
	if p.give > 0 {
		p.give--
		p.q.Push([]rdma.Result{plainResult})
	}
	return 0
}
func (p *fakePair) Sleep()         { p.sleeps++ }
func (p *fakePair) Fail(err error) { p.failed = err }

// A poll of an empty queue drives its connections and returns their results. After many
// polls the driving is hot, until a Wait sleeps.
//
// Source: [ND CompletionQueue.GetResults]
func TestPollDrivesConnections(t *testing.T) {
	q := newQueue(t, 8)
	p := &fakePair{q: q, give: 1}
	if !q.Attach(p) {
		t.Fatal("refused")
	}
	var res [4]rdma.Result
	if n, err := q.Poll(res[:]); n != 1 || err != nil || p.looks != 1 || p.hot {
		t.Fatal(n, err, p)
	}
	q.Push([]rdma.Result{plainResult})
	if n, _ := q.Poll(res[:]); n != 1 || p.looks != 1 {
		t.Error("a poll of a queue with results looks for more")
	}
	for range HotPolls {
		q.Poll(res[:])
	}
	if !p.hot {
		t.Error("not hot after many polls")
	}
	q.Push([]rdma.Result{plainResult})
	if err := q.Wait(t.Context(), rdma.NotifyAny); err != nil || p.sleeps != 0 {
		t.Error("a notification that does not wait:", err, p.sleeps)
	}
	q.Poll(res[:])
	n := startNotify(t, q, rdma.NotifyAny)
	q.Push([]rdma.Result{plainResult})
	if err := <-n.done; err != nil || p.sleeps != 1 {
		t.Error(err, p.sleeps)
	}
	q.Poll(res[:])
	if q.Poll(res[:]); p.hot {
		t.Error("hot after a sleep")
	}
	before := p.looks
	q.Detach(p)
	if q.Poll(res[:]); p.looks != before {
		t.Error("driven after Detach")
	}
}

// A poll drives no queue pairs if there are more than maxDriven.
func TestPollDrivesAtMostMaxDriven(t *testing.T) {
	q := newQueue(t, 8)
	var pairs []*fakePair
	for range maxDriven + 1 {
		p := &fakePair{q: q}
		pairs = append(pairs, p)
		q.Attach(p)
	}
	looks := func() (n int) {
		for _, p := range pairs {
			n += p.looks
		}
		return n
	}
	var res [1]rdma.Result
	if q.Poll(res[:]); looks() != 0 {
		t.Error(looks())
	}
	q.Detach(pairs[0])
	if q.Poll(res[:]); looks() != maxDriven {
		t.Error(looks())
	}
}

// An overrun ends the queue pairs of the queue. No further queue pair can attach.
//
// Source: [RFC 5042 §6.4.3.2]
func TestCompletionQueueOverrunEndsConnections(t *testing.T) {
	q := newQueue(t, 1)
	p := &fakePair{q: q}
	q.Attach(p)
	q.Push([]rdma.Result{plainResult, plainResult})
	if rdma.StatusOf(p.failed) != rdma.StatusBufferOverflow {
		t.Error(p.failed)
	}
	if q.Attach(&fakePair{}) {
		t.Error("a queue that overran took another")
	}
	if n, err := q.Poll(make([]rdma.Result, 2)); n != 1 || rdma.StatusOf(err) != rdma.StatusBufferOverflow {
		t.Error(n, err)
	}
}

// handingPair passes its results to the poll, numbered in the order of creation.
type handingPair struct {
	fakePair
	batches []int // the number of results of each Look
	made    *uint64
}

func (p *handingPair) Look(_ bool, to Poller) (n int) {
	for _, b := range p.batches {
		results := make([]rdma.Result, b)
		for i := range results {
			results[i].ID = *p.made
			*p.made++
		}
		n += p.q.PushTo(&to, results)
	}
	p.batches = nil
	return n
}

// A poll gets all results in order, of several connections too, through the queue and
// directly. It gets as many as it has space for. During a Wait all results go through the
// queue and end the wait.
//
// Source: [ND CompletionQueue.GetResults], [ND §6.4]
func TestPollGetsResultsInOrder(t *testing.T) {
	for name, tt := range map[string]struct {
		batches [][]int // of each connection
		waits   bool
		polls   []int // results of each
	}{
		"one":                  {batches: [][]int{{1}}, polls: []int{1, 0}},
		"several at a time":    {batches: [][]int{{1, 2}}, polls: []int{3, 0}},
		"of two connections":   {batches: [][]int{{1}, {2}}, polls: []int{3, 0}},
		"more than fit":        {batches: [][]int{{1, 3, 1}}, polls: []int{3, 2, 0}},
		"too many at once":     {batches: [][]int{{4}}, polls: []int{3, 1, 0}},
		"too many, then a few": {batches: [][]int{{4, 1}}, polls: []int{3, 2, 0}},
		"a Wait sleeps":        {batches: [][]int{{1, 1}}, waits: true, polls: []int{2, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t, 8)
			made, next := new(uint64), uint64(0)
			for _, b := range tt.batches {
				if !q.Attach(&handingPair{fakePair{q: q}, b, made}) {
					t.Fatal("refused")
				}
			}
			var wait notifying
			if tt.waits {
				wait = startNotify(t, q, rdma.NotifyAny)
			}
			var got []int
			for range tt.polls {
				var res [3]rdma.Result
				n, err := q.Poll(res[:])
				if err != nil {
					t.Fatal(err)
				}
				for i := range res[:n] {
					if res[i].ID != next {
						t.Errorf("result %d comes where %d is due", res[i].ID, next)
					}
					next++
				}
				got = append(got, n)
			}
			if !slices.Equal(got, tt.polls) {
				t.Errorf("polls give %v results, want %v", got, tt.polls)
			}
			if tt.waits {
				if err := <-wait.done; err != nil {
					t.Error(err)
				}
			}
		})
	}
}
