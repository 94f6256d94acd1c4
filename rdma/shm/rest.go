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

// rest says who of this side looks into the peer's ring, and how the peer wakes
// them. While somebody polls, or comes back to Wait again and again, the
// connection is attended: the peer need not wake anybody. Who waits in Wait on a
// queue of this connection alone sleeps in a place of its own, where the peer wakes
// it without help of run: in the network poller on the bell, or blocking its thread
// on a futex. Else run is woken, which sleeps on the socket anyway.
type rest struct {
	c    *conn
	bell *ring.Doorbell
	how  uint64 // ring.SleepDoorbell or ring.SleepFutex, for who waits in Wait

	attended atomic.Bool   // somebody looks, or will soon
	looks    atomic.Uint64 // of who attends: grows between two looks of the timer
	seen     atomic.Uint64 // looks when the timer last looked
	napping  atomic.Bool   // somebody sleeps in Wait, or asks over and then will
	naps     atomic.Uint64 // how often

	seat   sync.Mutex  // held by who sleeps in Wait, and goes on with what woke it
	over   func() bool // whether it need not sleep; of who has the seat
	closed bool        // guarded by both locks: nobody takes the seat any more
	broken bool        // the peer closed the bell, so that run must be woken

	mu     sync.Mutex
	parked bool // run sleeps on the socket
	armed  atomic.Bool
	timer  *time.Timer   // looks whether the connection is still attended
	period time.Duration // until it looks again

	prompt prompter // rings the peer for answers that are not there yet
}

// grace is how long one that attended may stay away before run takes over. The more
// often it was found to come back, the more seldom is that looked at, at least every
// longGrace: a timer that is due before the kernel's next tick costs each sleep in the
// network poller, as the kernel sets its clock for it, and at the wake-up sets it back.
const (
	grace     = time.Millisecond
	longGrace = 32 * time.Millisecond
)

func (r *rest) init(c *conn, b *ring.Doorbell) {
	r.c, r.bell, r.how = c, b, ring.SleepDoorbell
	if c.a.p.cfg.BlockingWait {
		r.how = ring.SleepFutex
	}
	if b != nil {
		b.OnSleep(r.lieDown)
	}
	r.period, r.prompt.began = grace, time.Now()
	r.timer = time.AfterFunc(time.Hour, r.check)
	r.timer.Stop()
}

// publishLocked tells the peer how to wake this side from now on.
func (r *rest) publishLocked() {
	how := uint64(ring.Awake)
	switch {
	case r.closed:
		return
	case r.napping.Load():
		how = r.how
	case r.parked && !r.attended.Load():
		how = ring.SleepSocket
	}
	if s := r.c.own.Sleep.Load(); s&ring.SleepMask != how || how != ring.Awake {
		r.c.own.Sleep.Store((s | ring.SleepMask) + 1 + how)
	}
}

// socket says that run is about to sleep on the socket, or that it does not.
func (r *rest) socket(parked bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parked = parked
	if !r.napping.Load() {
		r.publishLocked()
	}
}

// attend says that somebody looks from now on, or that nobody does.
func (r *rest) attend(yes bool) {
	if r.attended.Load() == yes {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if r.attended.Store(yes); yes {
		r.armLocked()
	}
	if r.napping.Load() {
		return
	}
	if r.publishLocked(); !yes && r.parked && r.c.pending() {
		r.c.nudge()
	}
}

// attends is what one does who looks again and again.
func (r *rest) attends() {
	if r.looks.Load() == r.seen.Load() {
		r.looks.Add(1)
	}
	r.attend(true)
}

// armLocked lets the timer look whether the connection is still attended.
func (r *rest) armLocked() {
	if !r.armed.Load() {
		r.armed.Store(true)
		r.timer.Reset(r.period)
	}
}

// check gives the work back to run if nobody looked for a while.
func (r *rest) check() {
	r.mu.Lock()
	r.armed.Store(false) // before napping is looked at: see getUp
	looks := r.looks.Load()
	stays := looks != r.seen.Load()
	r.seen.Store(looks)
	if stays {
		r.period = min(2*r.period, longGrace)
	} else {
		r.period = grace
	}
	if stays && !r.closed {
		r.armLocked()
	}
	away := !stays && !r.napping.Load()
	r.mu.Unlock()
	if away {
		r.attend(false)
	}
}

// poke ends the sleep of who is in the seat. It waits for nothing that takes long.
func (r *rest) poke() {
	nap := r.naps.Load()
	if !r.napping.Load() {
		return
	}
	if r.how == ring.SleepDoorbell {
		r.bell.Interrupt()
		return
	}
	// One that is about to sleep may miss it; another that comes after it does not
	// sleep if it should not.
	for r.napping.Load() && r.naps.Load() == nap {
		ring.FutexWake(&r.c.peer.Futex)
		time.Sleep(futexPause)
	}
}

// futexPause is how long a thread may take to fall asleep on a futex.
const futexPause = 20 * time.Microsecond

// close lets nobody attend any more, and waits until nobody does.
func (r *rest) close() {
	r.poke()
	r.seat.Lock()
	defer r.seat.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.timer.Stop()
}

// park is how who waits in Wait sleeps, until there may be something to do, which
// it does then, or over says that it need not. It is false at once if somebody else
// sleeps so already, or there is no connection any more.
func (c *conn) park(over func() bool) bool {
	r := &c.rest
	if r.bell == nil || !r.seat.TryLock() {
		return false
	}
	defer r.seat.Unlock()
	if r.closed || r.broken || c.ending.Load() != nil {
		return false
	}
	r.over = over
	switch {
	case c.arrives():
	case r.how == ring.SleepFutex:
		r.napOnFutex()
	default:
		if r.napOnDoorbell() {
			c.foresee()
		}
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
	if more && !r.attended.Load() {
		c.nudge() // run, which the peer may have no reason to wake
	}
	return true
}

// arrives lets other goroutines run before a sleep, and reports whether there is something
// to do by then. Where many connections are busy there often is, and the peer does not have
// to wake anybody. The connection must be attended, as nothing tells the peer that this
// side looks.
func (c *conn) arrives() bool {
	r := &c.rest
	if !r.attended.Load() {
		return false
	}
	if !c.pending() {
		runtime.Gosched()
	}
	if !c.pending() {
		return false
	}
	r.looks.Add(1)
	return true
}

// lieDown says that the caller is about to sleep. It is false if there is a reason
// not to.
func (r *rest) lieDown() bool {
	r.looks.Add(1)
	r.prompt.missed()
	r.mu.Lock()
	r.naps.Add(1) // before napping: see poke
	r.napping.Store(true)
	r.publishLocked()
	r.mu.Unlock()
	return !r.over() && !r.c.pending()
}

// getUp says that it sleeps no more. Unless others wait whom nobody would wake, it
// comes back soon, and its peer need not be told, which wakes once for each sleep.
func (r *rest) getUp() {
	others := r.c.qp.Sleepers()
	r.napping.Store(false)
	if others == 0 && r.attended.Load() && r.armed.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attended.Store(others == 0)
	r.publishLocked()
	r.armLocked()
}

// napOnDoorbell sleeps in the network poller, and reports whether the peer ended that.
func (r *rest) napOnDoorbell() bool {
	prepared, rang, err := r.bell.Sleep()
	if err != nil {
		r.broken = true
	}
	if prepared {
		r.getUp()
	}
	return rang
}

// napOnFutex blocks the thread until the peer writes its word, or poke.
func (r *rest) napOnFutex() {
	word := &r.c.peer.Futex
	before := word.Load()
	if r.lieDown() {
		ring.FutexWait(word, before)
		ring.RaceAcquire()
	}
	r.getUp()
}

// look is what a poll does for the connection. One that goes on for long (hot)
// makes itself responsible, so that the peer saves the wake-ups. It tells how many results
// it has handed to who polls.
func (c *conn) look(hot bool, to softrdma.Poller) int {
	if c.ending.Load() != nil {
		return 0
	}
	if hot {
		c.rest.attends()
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

// drainSome takes some entries out of the ring, and lets others do so before it is
// called again. more says that there are more of them.
func (c *conn) drainSome() (more bool, err error) {
	c.rxMu.Lock()
	defer c.rxMu.Unlock()
	if err := c.drainLocked(pollBudget); err != nil {
		return false, err
	}
	return c.ending.Load() == nil && c.peer.Tail.Load() != c.rx.in.Head() && !c.rx.stalled.Load(), nil
}

// pollBudget is how many entries are taken from a connection at a time.
const pollBudget = 64

// sendBudget is how many requests who was woken in Wait sends before it goes on with
// what woke it.
const sendBudget = 64
