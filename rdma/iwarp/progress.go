package iwarp

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"time"
)

// Who may sleep on the socket, in progress.seat.
const (
	seatFree   int32 = iota
	seatReader       // the connection's own goroutine
	seatGuest        // a call of Wait
)

// Why nobody but the connection's own goroutine may read, in progress.claims.
const (
	claimEnd   uint32 = 1 << iota // the connection ends
	claimFail                     // writing failed, and the peer may have said why
	claimStall                    // a message waits for a shared receive
)

const (
	// leave is how long the reader stays away, in which nobody reads, before it
	// reads itself again. When it is over all who can run have a turn first, as it may be
	// they who read. It doubles, up to longestLeave, each time that others have read: a
	// timer that is due soon makes every sleep of theirs dearer, as the kernel sets the
	// processor's clock for it. When they stop, nobody reads for up to three times as long as
	// they have, and for no more than two longestLeaves.
	leave        = time.Millisecond
	longestLeave = 32 * leave
	// It doubles too, but up to crowdedLeave, each time that the reader runs busyDelay
	// late, as the processors are busy: others who would read have not had their turn
	// then. Timers of an idle machine are late too, by up to one leave.
	crowdedLeave = 16 * leave
	busyDelay    = 4 * leave
	// streakLooks is after how many looks within streakTime somebody counts as
	// polling.
	streakLooks = 64
	streakTime  = 200 * time.Microsecond
	// rareSleeps is for how many sleeps of guests the timer is stopped, each time that it
	// ran out while one slept who had slept but once since it ran out before. So it wakes
	// no goroutine for nothing at each sleep, where there are hundreds of connections;
	// where sleeps are short, to leave it running costs less.
	rareSleeps = 64
	// freshLooks is how many Looks after a call of Wait that read all there was do
	// nothing: who comes from there with all results looks once before it answers them, and
	// once when it has polled the results of that, and then goes back there.
	freshLooks = 2
	// vainLooks is after how many looks in a row that found nothing who polls lets others
	// run, where there is one processor. To do that takes as long as a look.
	vainLooks = 8
)

// progress is about who reads the socket: whoever holds receiver.mu, for as long
// as there is something to read. Who waits for more does so in the seat, in front
// of the network poller, and that is at any time
//
//   - the reader, which is the connection's own goroutine;
//   - a guest, which is a call of Wait: what it waits for needs then no other
//     goroutine to be handed over;
//   - nobody, while somebody polls, or for a moment between two calls of Wait.
//
// The reader leaves when it is woken the next time after it was seen that others
// would read. It comes back when there was no use of that for a while, which is the
// longer the longer they have read, when somebody sleeps whom it must serve, or for good
// when there is a claim. Without syscall.RawConn it never leaves.
type progress struct {
	seat   atomic.Int32
	claims atomic.Uint32
	wanted atomic.Bool   // others read: the reader is to stay away
	away   atomic.Bool   // it is
	uses   atomic.Uint64 // of its being away
	kick   chan struct{} // makes the reader look about
	tick   *time.Timer   // so does this
	armed  atomic.Bool   // the timer runs
	leave  atomic.Int64  // for how long, in nanoseconds
	rare   atomic.Int32  // for how many sleeps of guests to come the timer is stopped

	parked atomic.Bool  // the guest sleeps, or asks over and then will
	over   func() bool  // whether it need not; of who has the seat
	fresh  atomic.Int32 // how many of the next Looks are in vain, as there was one
}

func (p *progress) init() {
	p.kick = make(chan struct{}, 1)
	p.tick = time.NewTimer(leave)
	p.tick.Stop()
	p.leave.Store(int64(leave))
}

// nudge makes the reader look about.
func (p *progress) nudge() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// arm makes it look about in a while.
func (p *progress) arm() {
	if !p.armed.Load() && !p.armed.Swap(true) {
		p.tick.Reset(time.Duration(p.leave.Load()))
	}
}

// disarm keeps it from that while there is a guest, if guests sleep for long.
func (p *progress) disarm() {
	if p.rare.Load() > 0 && p.rare.Add(-1) >= 0 && p.armed.Load() && p.tick.Stop() {
		p.armed.Store(false)
	}
}

// claim keeps all others from reading.
func (c *conn) claim(why uint32) {
	c.progress.claims.Or(why)
	c.interrupt()
	c.progress.nudge()
}

// mayRead tells whether others than the reader may read.
func (p *progress) mayRead() bool { return p.claims.Load() == 0 }

// takeSeat waits until the reader should sleep on the socket, and takes the seat.
func (c *conn) takeSeat() {
	p := &c.progress
	if p.seat.CompareAndSwap(seatFree, seatReader) && !p.wanted.Load() {
		return
	}
	p.seat.CompareAndSwap(seatReader, seatFree)
	p.away.Store(true)
	defer p.away.Store(false)
	if c.qp.naps.Load() != c.rx.naps {
		p.wanted.Store(false) // somebody slept who did not see that nobody is here
	}
	p.armed.Store(true)
	p.tick.Reset(time.Duration(p.leave.Load()))
	seen := p.uses.Load()
	for {
		if (!p.wanted.Load() || !p.mayRead()) && p.seat.CompareAndSwap(seatFree, seatReader) {
			p.leave.Store(int64(leave))
			return
		}
		select {
		case <-p.kick:
		case due := <-p.tick.C:
			p.armed.Store(false)
			if p.seat.Load() != seatGuest {
				runtime.Gosched() // to those who were to run before, and may be who reads
			}
			guest, now := p.seat.Load() == seatGuest, p.uses.Load()
			if guest && now-seen <= 1 {
				p.rare.Store(rareSleeps)
			}
			stays := p.stays(guest || now != seen, time.Since(due))
			seen = now
			if guest {
				continue // who arms it again
			}
			if !stays || c.qp.Sleepers() > 0 {
				p.wanted.Store(false)
			}
			p.arm()
		}
	}
}

// stays tells whether the reader is to stay away when its time is over, and notes for how
// long. read says that others have read meanwhile, and late is how late the reader runs.
func (p *progress) stays(read bool, late time.Duration) bool {
	away := time.Duration(p.leave.Load())
	switch {
	case read:
		p.leave.Store(int64(min(2*away, longestLeave)))
		return true
	case late >= busyDelay && away < crowdedLeave:
		p.leave.Store(int64(2 * away))
		return true
	}
	return false
}

// recall makes the reader come back, unless there is a guest.
func (c *conn) recall() {
	p := &c.progress
	if p.away.Load() && p.seat.Load() != seatGuest {
		p.wanted.Store(false)
		p.nudge()
	}
}

// look reads once for who polls. One that goes on makes the reader leave.
func (c *conn) look() {
	p, x := &c.progress, &c.rx
	if !p.mayRead() || p.fresh.Load() > 0 && p.fresh.Add(-1) >= 0 {
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
	if vain && c.alone {
		runtime.Gosched()
	}
}

// lookCounter counts the looks of pollers.
type lookCounter struct {
	looks int       // since the streak began
	vain  int       // looks in a row that found nothing
	begun time.Time // when the streak began
}

// count counts a look. vain reports vainLooks looks in a row that found nothing, streak
// reports streakLooks looks within streakTime.
func (l *lookCounter) count(idle bool) (vain, streak bool) {
	if l.vain++; !idle {
		l.vain = 0
	} else if l.vain == vainLooks {
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

// park lets a call of Wait wait on the socket and read, until something was
// pushed to its queue, or over says so. It refuses while there are others to serve,
// and if the reader has the seat, which then leaves it for the next time.
func (c *conn) park(over func() bool) bool {
	p := &c.progress
	if !p.mayRead() || c.qp.Sleepers() > 0 {
		return false
	}
	if !p.seat.CompareAndSwap(seatFree, seatGuest) {
		p.wanted.Store(true)
		return false
	}
	p.disarm()
	p.over = over
	err := c.raw.Read(c.rx.guestFn)
	p.rise()
	p.over = nil
	if err != nil && !c.spurious(err) {
		c.rx.mu.Lock()
		c.rx.fail(err)
		c.rx.mu.Unlock()
	}
	p.uses.Add(1)
	if p.fresh.Load() != freshLooks {
		p.fresh.Store(freshLooks)
	}
	p.seat.Store(seatFree)
	if !p.mayRead() || c.qp.Sleepers() > 0 || !p.wanted.Load() {
		p.wanted.Store(false)
		p.nudge()
	} else {
		p.arm()
	}
	return true
}

// rise notes that the guest is awake.
func (p *progress) rise() {
	if p.parked.Load() {
		p.parked.Store(false)
	}
}

// unpark ends a park that is under way.
func (c *conn) unpark() {
	if c.progress.parked.Load() {
		c.interrupt()
	}
}

// interrupt makes who is in the seat look about, or the next who takes it.
func (c *conn) interrupt() {
	if c.raw == nil {
		return
	}
	c.deadlineMu.Lock()
	defer c.deadlineMu.Unlock()
	c.interrupted = true
	_ = c.nc.SetReadDeadline(longAgo)
}

// spurious tells whether an error of the seat is that of interrupt, and takes it
// back. The caller still has the seat: who is in it next may be interrupted too.
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
