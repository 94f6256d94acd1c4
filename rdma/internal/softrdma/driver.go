package softrdma

import "lwio/rdma"

// Driver is a queue pair as its completion queues see it: polls make progress on it.
type Driver interface {
	// Look makes progress on the connection without waiting. A poller calls it when the
	// queue is empty. Many goroutines may call it at once, also before the connection
	// begins and after it has ended. Look pushes results to the queue. hot means that the
	// polling continues: the connection may then leave all progress to Look, until Sleep
	// is called, or until it finds that Look is no longer called. Look may pass results
	// to the poller as PushTo allows, and returns their number.
	Look(hot bool, to Poller) int
	// Sleep tells the connection that the poller sleeps in Wait: from then on its own
	// goroutines make progress, and push results without a further poll.
	Sleep()
	// Fail ends the connection because the queue has overrun.
	Fail(err error)
}

// Parker is a Driver that lets a call of Wait sleep where the peer's wake-up arrives. Its
// results then need no hand-over from another goroutine.
type Parker interface {
	Driver
	// Park sleeps until the connection may have progress to make, makes it, pushes
	// results, and returns true. It may return at any time. It returns false at once if
	// it cannot park now; results must then arrive without it.
	//
	// over reports whether the caller can stop sleeping. Park calls it after Unpark can
	// find the sleeper, so that no change is missed. Park also calls it between parts of
	// the work, so that a peer that sends without end does not hold the caller.
	Park(over func() bool) bool
	// Unpark ends the Park in progress, if there is one. Any goroutine may call it at any
	// time, also the parking goroutine, and with the lock of a queue held.
	Unpark()
}

// maxDriven bounds the queue pairs that a poll of the empty queue drives. A queue with
// more queue pairs leaves all progress to the goroutines of the connections.
const maxDriven = 4

// HotPolls is the number of polls of the empty queue after which a poller is hot.
const HotPolls = 64

// drivenLocked sets the queue pairs that polls drive.
func (q *CompletionQueue) drivenLocked() {
	var list []Driver
	if len(q.drivers) <= maxDriven {
		for p := range q.drivers {
			list = append(list, p)
		}
	}
	q.driven.Store(&list)
	q.sole = nil
	if len(q.drivers) == 1 {
		q.sole, _ = list[0].(Parker)
	}
}

// drive makes progress on the connections for a poll of the empty queue. It returns the
// number of results that it put into results.
func (q *CompletionQueue) drive(results []rdma.Result) int {
	list := q.driven.Load()
	if list == nil || len(*list) == 0 {
		return 0
	}
	hot, n := q.polls.Load() > HotPolls || q.polls.Add(1) > HotPolls, 0
	for _, p := range *list {
		n += p.Look(hot, Poller{q, results[n:]})
	}
	return n
}

// Poller is a poll of a queue, with space for results. The zero value stands for no poll.
type Poller struct {
	q       *CompletionQueue // nil for no poll
	results []rdma.Result
}

// PushTo pushes results straight to a poll if the queue is empty and no call of Wait is
// in progress. Otherwise it is Push. It returns the number of results that the poll
// received. These results are not in the queue; results that are pushed afterwards come
// later.
func (q *CompletionQueue) PushTo(to *Poller, results []rdma.Result) int {
	if to.q != q || len(results) > len(to.results) || q.count.Load() != 0 || q.waiting.Load() != 0 {
		q.Push(results)
		return 0
	}
	n := copy(to.results, results)
	to.results = to.results[n:]
	return n
}

// sleepDrivers reports to the connections that the poller sleeps.
func (q *CompletionQueue) sleepDrivers() {
	q.polls.Store(0)
	if list := q.driven.Load(); list != nil {
		for _, p := range *list {
			p.Sleep()
		}
	}
}
