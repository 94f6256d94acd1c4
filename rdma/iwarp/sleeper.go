package iwarp

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"lwio/rdma/internal/softrdma"
)

// The goroutine that sleeps on the socket, in sleeper.role.
const (
	roleNone   int32 = iota
	roleReader       // the connection's own goroutine
	roleWaiter       // a call of Wait
)

// The reasons that leave all reading to the connection's own goroutine, in
// sleeper.claims.
const (
	claimEnd   uint32 = 1 << iota // the connection ends
	claimFail                     // writing failed, and the peer may have sent the reason
	claimStall                    // a message waits for a shared receive
)

const (
	// absence is the time for which the reader leaves the socket to other goroutines
	// before it reads again. Before it reads, it yields to all runnable goroutines,
	// because one of them may be reading. The time doubles, up to longestAbsence, each
	// time that other goroutines have read. A timer that is due soon makes each sleep of
	// those goroutines more expensive, because the kernel sets the processor's timer for
	// it. After they stop, nothing reads the socket for up to three times as long as they
	// have read, and for at most two longestAbsences.
	absence        = time.Millisecond
	longestAbsence = 32 * absence
	// The time also doubles, but up to busyAbsence, each time that the reader runs
	// busyDelay late. The processors are then busy, and other goroutines may not have had
	// their turn to read. On an idle machine timers are late too, by up to one absence.
	busyAbsence = 16 * absence
	busyDelay   = 4 * absence
	// streakLooks is the number of looks within streakTime after which a caller counts as
	// a poller.
	streakLooks = 64
	streakTime  = 200 * time.Microsecond
	// timerStops is the number of sleeps of waiters for which the timer is stopped. It is
	// set each time that the timer expires during a sleep and at most one sleep has ended
	// since it expired before. With hundreds of connections the timer then does not wake
	// a goroutine in vain at each sleep. If sleeps are short, a running timer costs less.
	timerStops = 64
	// skippedLooks is the number of Looks that do nothing after a Wait that read all
	// data. A caller that returns from Wait with all results looks once before it answers
	// them, and once more after it has polled; then it waits again.
	skippedLooks = 2
	// emptyLooks is the number of consecutive looks without data after which a poller
	// yields, if there is one processor. A yield takes as long as a look.
	emptyLooks = 8
)

// sleeper decides which goroutine reads the socket. The reading goroutine holds
// receiver.mu while there is data. One goroutine sleeps on the socket, in the network
// poller; role names it:
//
//   - the reader, which is the connection's own goroutine;
//   - a waiter, which is a call of Wait: its results need no hand-over from
//     another goroutine;
//   - none, during polls, and for a moment between two calls of Wait.
//
// When the reader finds that other goroutines read, it leaves the socket at its next
// wake-up. It returns if they have not read for a time, which grows with the time for
// which they have read. It also returns if a goroutine sleeps that needs the reader. With
// a claim it returns and stays. Without syscall.RawConn it never leaves.
type sleeper struct {
	role    atomic.Int32
	claims  atomic.Uint32
	wanted  atomic.Bool   // other goroutines read: the reader stays away
	away    atomic.Bool   // the reader stays away
	uses    atomic.Uint64 // reads by other goroutines while the reader is away
	wakeup  chan struct{} // makes the reader check its state
	tick    *time.Timer   // as wakeup, after absence
	armed   atomic.Bool   // the timer is running
	absence atomic.Int64  // nanoseconds
	stops   atomic.Int32  // coming sleeps of waiters for which the timer is stopped

	parked atomic.Bool  // the waiter sleeps, or is about to sleep unless over reports true
	over   func() bool  // reports that the goroutine in the role can stop sleeping; belongs to that goroutine
	skips  atomic.Int32 // coming Looks that do nothing
}

func (p *sleeper) init() {
	p.wakeup = make(chan struct{}, 1)
	p.tick = time.NewTimer(absence)
	p.tick.Stop()
	p.absence.Store(int64(absence))
}

// nudge makes the reader check its state.
func (p *sleeper) nudge() {
	select {
	case p.wakeup <- struct{}{}:
	default:
	}
}

// arm makes the reader check its state after absence.
func (p *sleeper) arm() {
	if !p.armed.Load() && !p.armed.Swap(true) {
		p.tick.Reset(time.Duration(p.absence.Load()))
	}
}

// disarm stops the timer while a waiter sleeps, if stops is positive.
func (p *sleeper) disarm() {
	if p.stops.Load() > 0 && p.stops.Add(-1) >= 0 && p.armed.Load() && p.tick.Stop() {
		p.armed.Store(false)
	}
}

// claim makes the reader the only goroutine that reads.
func (c *conn) claim(why uint32) {
	c.sleeper.claims.Or(why)
	c.interrupt()
	c.sleeper.nudge()
}

// mayRead reports whether goroutines other than the reader may read.
func (p *sleeper) mayRead() bool { return p.claims.Load() == 0 }

// becomeSleeper waits until the reader should sleep on the socket, and gives it the role.
func (c *conn) becomeSleeper() {
	p := &c.sleeper
	if p.role.CompareAndSwap(roleNone, roleReader) && !p.wanted.Load() {
		return
	}
	p.role.CompareAndSwap(roleReader, roleNone)
	p.away.Store(true)
	defer p.away.Store(false)
	if c.qp.sleeps.Load() != c.rx.sleeps {
		p.wanted.Store(false) // a goroutine slept without seeing that the reader is away
	}
	p.armed.Store(true)
	p.tick.Reset(time.Duration(p.absence.Load()))
	seen := p.uses.Load()
	for {
		if (!p.wanted.Load() || !p.mayRead()) && p.role.CompareAndSwap(roleNone, roleReader) {
			p.absence.Store(int64(absence))
			return
		}
		select {
		case <-p.wakeup:
		case due := <-p.tick.C:
			p.armed.Store(false)
			if p.role.Load() != roleWaiter {
				runtime.Gosched() // let runnable goroutines run first; one of them may read
			}
			waiter, now := p.role.Load() == roleWaiter, p.uses.Load()
			if waiter && now-seen <= 1 {
				p.stops.Store(timerStops)
			}
			stays := p.stays(waiter || now != seen, time.Since(due))
			seen = now
			if waiter {
				continue // the waiter arms it again
			}
			if !stays || c.qp.Sleepers() > 0 {
				p.wanted.Store(false)
			}
			p.arm()
		}
	}
}

// stays reports whether the reader stays away at the end of its absence, and sets the
// next absence. read means that other goroutines have read meanwhile; late is the delay
// of the reader.
func (p *sleeper) stays(read bool, late time.Duration) bool {
	away := time.Duration(p.absence.Load())
	switch {
	case read:
		p.absence.Store(int64(min(2*away, longestAbsence)))
		return true
	case late >= busyDelay && away < busyAbsence:
		p.absence.Store(int64(2 * away))
		return true
	}
	return false
}

// recall makes the reader return, unless a waiter sleeps on the socket.
func (c *conn) recall() {
	p := &c.sleeper
	if p.away.Load() && p.role.Load() != roleWaiter {
		p.wanted.Store(false)
		p.nudge()
	}
}

// look reads once for a poller. If looks continue, the reader stays away.
func (c *conn) look() {
	p, x := &c.sleeper, &c.rx
	if !p.mayRead() || p.skips.Load() > 0 && p.skips.Add(-1) >= 0 {
		return
	}
	if !x.mu.TryLock() {
		return
	}
	x.readOnce()
	vain, streak := x.looks.count(x.idle)
	if streak {
		p.uses.Add(1)
		p.wanted.Store(true)
	}
	x.mu.Unlock()
	if vain && c.singleCPU {
		runtime.Gosched()
	}
}

// lookCounter counts the looks of pollers.
type lookCounter struct {
	looks int       // since the streak began
	vain  int       // consecutive looks without data
	begun time.Time // when the streak began
}

// count counts a look. vain reports emptyLooks consecutive looks without data, streak
// reports streakLooks looks within streakTime.
func (l *lookCounter) count(idle bool) (vain, streak bool) {
	if l.vain++; !idle {
		l.vain = 0
	} else if l.vain == emptyLooks {
		l.vain, vain = 0, true
	}
	if l.looks++; l.looks == streakLooks {
		l.looks = 0
		now := time.Now()
		streak = now.Sub(l.begun) < streakTime
		l.begun = now
	}
	return vain, streak
}

// park lets a call of Wait sleep on the socket and read, until a result was pushed to its
// queue, or over reports true. It returns false while other calls need the reader. It
// also returns false while the reader has the role; the reader then leaves for the next
// call.
func (c *conn) park(over func() bool) bool {
	p := &c.sleeper
	if !p.mayRead() || c.qp.Sleepers() > 0 {
		return false
	}
	if !p.role.CompareAndSwap(roleNone, roleWaiter) {
		p.wanted.Store(true)
		return false
	}
	p.disarm()
	p.over = over
	err := c.raw.Read(c.rx.waiterFn)
	p.setAwake()
	p.over = nil
	if err != nil && !c.spurious(err) {
		c.rx.mu.Lock()
		c.rx.fail(err)
		c.rx.mu.Unlock()
	}
	p.uses.Add(1)
	if p.skips.Load() != skippedLooks {
		p.skips.Store(skippedLooks)
	}
	p.role.Store(roleNone)
	if !p.mayRead() || c.qp.Sleepers() > 0 || !p.wanted.Load() {
		p.wanted.Store(false)
		p.nudge()
	} else {
		p.arm()
	}
	return true
}

// setAwake records that the waiter is awake.
func (p *sleeper) setAwake() {
	if p.parked.Load() {
		p.parked.Store(false)
	}
}

// unpark ends the park in progress.
func (c *conn) unpark() {
	if c.sleeper.parked.Load() {
		c.interrupt()
	}
}

// interrupt makes the goroutine in the role check its state. If the role is free, the
// next goroutine in it does.
func (c *conn) interrupt() {
	if c.raw == nil {
		return
	}
	c.deadlineMu.Lock()
	defer c.deadlineMu.Unlock()
	c.interrupted = true
	_ = c.nc.SetReadDeadline(softrdma.LongAgo)
}

// spurious reports whether an error of the sleeping goroutine came from interrupt, and
// resets the interrupt. The caller still has the role: the next goroutine may be
// interrupted too.
func (c *conn) spurious(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	c.deadlineMu.Lock()
	defer c.deadlineMu.Unlock()
	if !c.interrupted {
		return false
	}
	c.interrupted = false
	if !c.woken {
		_ = c.nc.SetReadDeadline(c.readLimit)
	}
	return true
}
