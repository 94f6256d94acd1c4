package softrdma

import "lwio/rdma"

// Driver is a queue pair as its completion queues see it: something that can be
// driven by who polls.
type Driver interface {
	// Look does what there is to do for the connection, without waiting: somebody
	// polls and finds the queue empty. It may be called by many goroutines at once,
	// also before and after the connection's life, and pushes results to that very
	// queue. hot says that the polling goes on for long: then the connection may
	// leave all progress to it, until Sleep, or until it sees that no Look comes. It
	// may hand results to who polls, as far as PushTo says so, and tells how many.
	Look(hot bool, to Poller) int
	// Sleep gives the progress back to the connection's own goroutines: who polled
	// waits in Wait now. A result that can be had from then on must be pushed
	// without any further poll.
	Sleep()
	// Fail ends the connection: the queue has overrun.
	Fail(err error)
}

// Parker is a Driver that lets who waits in Wait sleep in the place where the
// peer's wake-up arrives, so that no other goroutine must run first.
type Parker interface {
	Driver
	// Park sleeps until there may be something for the connection, does it, pushes
	// results, and returns true; it may return at any time. It is false at once if
	// it cannot be done now: then what there is must come without it.
	//
	// over tells whether the caller need not sleep any more. It is asked when
	// Unpark would already find the sleeper, so that what becomes so later is not
	// missed, and between parts of the work, so that a peer that gives more and
	// more of it does not hold the caller.
	Park(over func() bool) bool
	// Unpark ends the Park that is under way, if there is one, whoever called it. It
	// may be called at any time, by who parks too, and with the lock of a queue held.
	Unpark()
}

// maxDriven is up to how many queue pairs a poll of the empty queue drives
// itself; more are left to the goroutines of their connections.
const maxDriven = 4

// HotPolls is after how many polls of the empty queue a poller counts as hot.
const HotPolls = 64

// drivenLocked notes the queue pairs that polls drive.
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

// drive is what a poll of the empty queue does for the connections, and how many results it
// gets from them.
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

// Poller is who polls a queue, and has room for results.
type Poller struct {
	q       *CompletionQueue // or nil for nobody
	results []rdma.Result
}

// PushTo is Push while somebody polls the queue, who gets the results, without the queue
// between, if it is empty, and nobody waits for results of it; it tells how many. They have
// left the queue then, and what is pushed to it later comes later.
func (q *CompletionQueue) PushTo(to *Poller, results []rdma.Result) int {
	if to.q != q || len(results) > len(to.results) || q.count.Load() != 0 || q.waiting.Load() != 0 {
		q.Push(results)
		return 0
	}
	n := copy(to.results, results)
	to.results = to.results[n:]
	return n
}

// rest tells the connections that who polled sleeps.
func (q *CompletionQueue) rest() {
	q.polls.Store(0)
	if list := q.driven.Load(); list != nil {
		for _, p := range *list {
			p.Sleep()
		}
	}
}
