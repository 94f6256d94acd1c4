package softrdma

import "lwio/rdma"

// Driver is a queue pair as its completion queues see it: a poller drives it.
type Driver interface {
	// Look makes progress on the connection without waiting. A poller calls it when the
	// queue is empty, also from many goroutines at once, and before and after the
	// connection's life. Look pushes results to that queue. hot means that the polling
	// lasts: the connection may then leave all progress to it, until Sleep, or until it
	// sees that no Look comes. Look may pass results to the poller where PushTo allows
	// that, and returns their number.
	Look(hot bool, to Poller) int
	// Sleep returns progress to the connection's own goroutines because the poller sleeps
	// in Wait. From then on results must be pushed without a further poll.
	Sleep()
	// Fail ends the connection because the queue has overrun.
	Fail(err error)
}

// Parker is a Driver that lets a call of Wait sleep where the peer's wake-up arrives, so
// that no other goroutine must run first.
type Parker interface {
	Driver
	// Park sleeps until the connection may have progress to make, makes it, pushes
	// results, and returns true; it may return at any time. It returns false at once if
	// it cannot park now: results must then arrive without it.
	//
	// over reports whether the caller need not sleep any more. Park calls it after Unpark
	// can find the sleeper, so that no change is missed, and between parts of the work,
	// so that a peer that sends without end does not hold the caller.
	Park(over func() bool) bool
	// Unpark ends the Park in progress, if there is one, of any caller. It may be called
	// at any time, also by the parking goroutine, and with the lock of a queue held.
	Unpark()
}

// maxDriven bounds the queue pairs that a poll of the empty queue drives; more are left
// to the goroutines of their connections.
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

// drive makes progress on the connections for a poll of the empty queue, and returns the
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

// Poller is a poll of a queue, with room for results. The zero value is none.
type Poller struct {
	q       *CompletionQueue // nil for no poll
	results []rdma.Result
}

// PushTo pushes results straight to a poll if the queue is empty and no call of Wait
// waits for results; else it is Push. It returns the number of results that the poll
// received. Those have left the queue; results that are pushed to it afterwards come
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

// sleepDrivers tells the connections that the poller sleeps.
func (q *CompletionQueue) sleepDrivers() {
	q.polls.Store(0)
	if list := q.driven.Load(); list != nil {
		for _, p := range *list {
			p.Sleep()
		}
	}
}
