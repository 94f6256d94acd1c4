//go:build linux

package shm

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"lwio/rdma/internal/softrdma"
	"lwio/rdma/shm/internal/ring"
)

// sleeper decides which goroutine of this side watches the peer's ring, and announces to
// the peer how to wake it. While a goroutine polls, or calls Wait repeatedly, the
// connection is polled and the peer wakes nothing. A goroutine in Wait on a queue of this
// connection alone sleeps here, and the peer wakes it directly: in the network poller by
// the doorbell, or on a futex, which blocks its thread. Otherwise the peer wakes the
// connection's own goroutine (run), which sleeps on the socket.
//
// Lock order: seat before mu.
type sleeper struct {
	own, peer *ring.Segment
	doorbell  *ring.Doorbell
	how       uint64 // of a sleep in Wait: SleepDoorbell or SleepFutex
	work      sleeperWork
	slept     func() // called before each sleep in Wait

	polled     atomic.Bool   // a goroutine polls, or is about to poll
	polls      atomic.Uint64 // grows between two checks of the timer while polled
	seenPolls  atomic.Uint64 // polls at the last check
	inWait     atomic.Bool   // a goroutine sleeps in Wait, or is about to sleep
	waitSleeps atomic.Uint64 // number of such sleeps

	seat   sync.Mutex  // held by the goroutine that sleeps in Wait and handles the event
	over   func() bool // reports that the goroutine can stop sleeping; guarded by seat
	closed bool        // no goroutine takes the seat any more; guarded by both locks
	broken bool        // the peer closed the doorbell, so Wait calls depend on run; guarded by seat

	mu        sync.Mutex
	runSleeps bool // run sleeps on the socket
	armed     atomic.Bool
	timer     *time.Timer   // checks whether the connection is still polled
	period    time.Duration // until the next check
}

// sleeperWork is the interface of a sleeper to its connection.
type sleeperWork interface {
	// pending reports whether there is a reason not to sleep. Precondition: the segments
	// are mapped.
	pending() bool
	// nudge wakes run.
	nudge()
	// sleepers returns the number of Wait calls that only run can serve.
	sleepers() int
}

// After pollGrace without a poll, the connection is handed over to run. Each check that
// finds a new poll doubles the time to the next check, up to longPollGrace. A timer that
// is due before the kernel's next tick makes every sleep in the network poller set the
// kernel's timer, and every wake-up reset it.
const (
	pollGrace     = time.Millisecond
	longPollGrace = 32 * time.Millisecond
)

func (r *sleeper) init(own, peer *ring.Segment, d *ring.Doorbell, blocking bool, work sleeperWork, slept func()) {
	r.own, r.peer, r.doorbell, r.work, r.slept = own, peer, d, work, slept
	if d != nil {
		d.OnSleep(r.beginSleep)
	}
	r.how = ring.SleepDoorbell
	if blocking {
		r.how = ring.SleepFutex
	}
	r.period = pollGrace
	r.timer = time.AfterFunc(time.Hour, r.check)
	r.timer.Stop()
}

// publishLocked announces to the peer how to wake this side.
func (r *sleeper) publishLocked() {
	how := uint64(ring.Awake)
	switch {
	case r.closed:
		return
	case r.inWait.Load():
		how = r.how
	case r.runSleeps && !r.polled.Load():
		how = ring.SleepSocket
	}
	if s := r.own.Sleep.Load(); s&ring.SleepMask != how || how != ring.Awake {
		r.own.Sleep.Store((s | ring.SleepMask) + 1 + how)
	}
}

// setRunSleeps records whether run is about to sleep on the socket.
func (r *sleeper) setRunSleeps(yes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runSleeps = yes
	if !r.inWait.Load() {
		r.publishLocked()
	}
}

// setPolled records whether goroutines poll.
func (r *sleeper) setPolled(yes bool) {
	if r.polled.Load() == yes {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if r.polled.Store(yes); yes {
		r.armLocked()
	}
	if r.inWait.Load() {
		return
	}
	if r.publishLocked(); !yes && r.runSleeps && r.work.pending() {
		r.work.nudge()
	}
}

// notePoll records a poll of a goroutine that polls repeatedly.
func (r *sleeper) notePoll() {
	if r.polls.Load() == r.seenPolls.Load() {
		r.polls.Add(1)
	}
	r.setPolled(true)
}

// armLocked starts the timer that checks whether the connection is still polled.
func (r *sleeper) armLocked() {
	if !r.armed.Load() {
		r.armed.Store(true)
		r.timer.Reset(r.period)
	}
}

// check hands the connection over to run if no goroutine polled since the last check.
func (r *sleeper) check() {
	r.mu.Lock()
	r.armed.Store(false) // before inWait is read: see endSleep
	polls := r.polls.Load()
	stays := polls != r.seenPolls.Load()
	r.seenPolls.Store(polls)
	if stays {
		r.period = min(2*r.period, longPollGrace)
	} else {
		r.period = pollGrace
	}
	if stays && !r.closed {
		r.armLocked()
	}
	away := !stays && !r.inWait.Load()
	r.mu.Unlock()
	if away {
		r.setPolled(false)
	}
}

// interrupt ends the sleep of the goroutine in the seat. It never waits long.
func (r *sleeper) interrupt() {
	sleep := r.waitSleeps.Load()
	if !r.inWait.Load() {
		return
	}
	if r.how == ring.SleepDoorbell {
		r.doorbell.Interrupt()
		return
	}
	// A thread that is about to sleep may miss a wake-up, so the wake-up is repeated. A
	// later sleep finds its reason not to begin.
	for r.inWait.Load() && r.waitSleeps.Load() == sleep {
		ring.FutexWake(&r.peer.Futex)
		time.Sleep(futexPause)
	}
}

// futexPause is the time that a thread may take to fall asleep on a futex.
const futexPause = 20 * time.Microsecond

// close ends polling and waiting. It waits for the goroutine in the seat, and admits no
// other goroutine.
func (r *sleeper) close() {
	r.interrupt()
	r.seat.Lock()
	defer r.seat.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.timer.Stop()
}

// beginSleep announces that the caller is about to sleep in Wait. It returns false if
// there is a reason not to sleep.
func (r *sleeper) beginSleep() bool {
	r.polls.Add(1)
	r.slept()
	r.mu.Lock()
	r.waitSleeps.Add(1) // before inWait: see interrupt
	r.inWait.Store(true)
	r.publishLocked()
	r.mu.Unlock()
	return !r.over() && !r.work.pending()
}

// endSleep announces the end of a sleep in Wait. If no other wait needs run, the caller
// returns soon, and no announcement is needed: the peer wakes once for each sleep.
func (r *sleeper) endSleep() {
	others := r.work.sleepers()
	r.inWait.Store(false)
	if others == 0 && r.polled.Load() && r.armed.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.polled.Store(others == 0)
	r.publishLocked()
	r.armLocked()
}

// sleep sleeps until the peer wakes this side or interrupt is called. It reports whether
// the doorbell woke it. Precondition: seat is held, and over is set.
func (r *sleeper) sleep() (rang bool) {
	if r.how == ring.SleepFutex {
		word := &r.peer.Futex
		before := word.Load()
		if r.beginSleep() {
			ring.FutexWait(word, before)
			ring.RaceAcquire()
		}
		r.endSleep()
		return false
	}
	prepared, rang, err := r.doorbell.Sleep()
	if err != nil {
		r.broken = true
	}
	if prepared {
		r.endSleep()
	}
	return rang
}

// workArrives lets other goroutines run before a sleep, and reports whether there is work
// afterwards. With many busy connections there often is, which saves the peer a wake-up.
// The connection must be polled, because the peer does not learn that this side looks.
func (r *sleeper) workArrives() bool {
	if !r.polled.Load() {
		return false
	}
	if !r.work.pending() {
		runtime.Gosched()
	}
	if !r.work.pending() {
		return false
	}
	r.polls.Add(1)
	return true
}

// park sleeps in Wait until there may be work, and does the work, or until over returns
// true. It returns false at once if another goroutine is in the seat, or if the
// connection has ended.
func (c *conn) park(over func() bool) bool {
	r := &c.sleeper
	if r.doorbell == nil || !r.seat.TryLock() {
		return false
	}
	defer r.seat.Unlock()
	if r.closed || r.broken || c.ending.Load() != nil {
		return false
	}
	r.over = over
	if !r.workArrives() && r.sleep() {
		c.wakeEarly()
	}
	r.over = nil
	more, err := true, error(nil)
	for more && err == nil {
		if more, err = c.drainSome(); over() {
			break
		}
	}
	if err == nil {
		c.qp.resume(sendBudget)
	}
	if more && !r.polled.Load() {
		c.nudge() // the peer may have no reason to wake run
	}
	return true
}

// wakeEarly handles a wake-up by the peer's doorbell. If the wake-up came before its
// message, wakeEarly polls briefly for the message. If a prompt answer is expected, it
// wakes the peer early. Precondition: seat is held, so that the segments are mapped.
func (c *conn) wakeEarly() {
	p := &c.waker.prediction
	if !c.pending() {
		for end := p.now() + int64(earlyLook); !c.pending() && !c.sleeper.over() && p.now() < end; {
		}
	}
	if c.peer.Tail.Load() == c.own.Head.Load() {
		return
	}
	if s := c.peer.Sleep.Load(); s&ring.SleepMask == ring.SleepDoorbell && p.expected() {
		p.early.Store(s)
		c.waker.end(s)
	}
	p.woken.Store(p.now())
}

// look makes progress on the connection for a poll. A goroutine that polls repeatedly
// (hot) takes over the ring, which saves the peer the wake-ups. look returns the number
// of results that the poller received.
func (c *conn) look(hot bool, to softrdma.Poller) int {
	if c.ending.Load() != nil {
		return 0
	}
	if hot {
		c.sleeper.notePoll()
	}
	if !c.rxMu.TryLock() {
		return 0
	}
	n, err := 0, error(nil)
	if !c.rxClosed && !c.rx.stalled.Load() {
		if c.rx.in.Arrived() {
			n, err = c.drainToLocked(pollBudget, to)
		}
	}
	c.rxMu.Unlock()
	if err == nil {
		c.qp.resume(0)
	}
	return n
}

// drainSome takes up to pollBudget entries out of the ring. more reports that there are
// more; other goroutines may take them first.
func (c *conn) drainSome() (more bool, err error) {
	c.rxMu.Lock()
	defer c.rxMu.Unlock()
	if err := c.drainLocked(pollBudget); err != nil {
		return false, err
	}
	return c.ending.Load() == nil && c.rx.in.Pending() && !c.rx.stalled.Load(), nil
}

// pollBudget is the number of entries that are taken from a connection at a time.
const pollBudget = 64

// sendBudget is the number of requests that a goroutine woken in Wait sends before it
// handles the event.
const sendBudget = 64
