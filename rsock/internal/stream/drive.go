package stream

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"
)

// pollsPerCheck is how many times who spins looks before it looks at the time, and lets
// others run.
const pollsPerCheck = 32

// bulkSpin is for how long who waits for the next part of much data looks for it before it
// sleeps, although Config.Spin is less: the part takes about that long, and a wake-up for
// each of them costs more.
const bulkSpin = 100 * time.Microsecond

// bulkRun is how many bytes in one direction, without any in the other, are much data;
// bulkPart is how many of them have to come at a time.
const (
	bulkRun  = 64 << 10
	bulkPart = 2 << 10
)

// run counts the bytes that moved in one direction, in large parts, since some moved in the
// other, or a small part.
type run struct{ n atomic.Int64 }

// add counts a part, and ends the run in the other direction.
func (r *run) add(n int, other *run) {
	if n >= bulkPart {
		r.n.Add(int64(n))
	} else if r.n.Load() != 0 {
		r.n.Store(0)
	}
	if other.n.Load() != 0 {
		other.n.Store(0)
	}
}

// isBulk tells whether that is much.
func (r *run) isBulk() bool { return r.n.Load() >= bulkRun }

// wait waits until w is signaled. The caller holds no lock but reading or writing.
func (s *Stream) wait(w *waiter) {
	for !w.flag.Load() {
		if !s.baton.take(w) {
			if s.cfg.Spin != 0 {
				s.baton.claim()
			}
			if w.flag.Load() {
				if s.baton.leave(w) {
					s.baton.pass()
				}
				return
			}
			<-w.token
			if !w.given {
				continue
			}
		}
		s.drive(w)
		s.baton.pass()
	}
}

// drive makes progress for all until w is signaled. The caller has the baton.
func (s *Stream) drive(w *waiter) {
	spin := spinner{most: s.cfg.Spin}
	if w.bulk && spin.most >= 0 {
		spin.most = max(spin.most, bulkSpin)
	}
	for !w.flag.Load() {
		if s.poll() > 0 {
			spin.polls = 0
			continue
		}
		if !spin.on() {
			s.sleep(w)
		}
	}
}

// spinner says for how long to look before a sleep.
type spinner struct {
	most  time.Duration
	polls int
	since time.Time
}

// on reports whether to look once more.
func (p *spinner) on() bool {
	if p.most == 0 {
		return false
	}
	if p.polls == 0 {
		p.since = time.Time{}
	}
	if p.polls++; p.polls%pollsPerCheck != 1 {
		return true
	}
	runtime.Gosched()
	switch {
	case p.most < 0:
		return true
	case p.since.IsZero():
		p.since = time.Now()
		return true
	}
	if time.Since(p.since) < p.most {
		return true
	}
	p.polls = 0
	return false
}

// sleep sleeps until there is something to poll for, or w is signaled.
func (s *Stream) sleep(w *waiter) {
	ctx := s.baton.waker.Next()
	w.state.Store(waiterSleeps)
	if !w.flag.Load() {
		if err := s.sock.Wait(ctx); err != nil && ctx.Err() == nil {
			s.fail(connectionError(&s.sock, err))
		}
	}
	w.state.Store(waiterRuns)
}

// poll takes what has arrived or ended, does what that asks for, and returns how much
// there was. The caller has the baton.
func (s *Stream) poll() int {
	s.mu.Lock()
	if s.dead {
		s.mu.Unlock()
		return 0
	}
	if s.in.spent {
		s.in.spent = false
		s.out.flush()
	}
	s.in.calm = 0
	n, err := s.sock.Poll()
	if n > s.in.calm {
		s.in.spent = false
		s.afterLocked()
	}
	s.mu.Unlock()
	if err != nil {
		s.fail(connectionError(&s.sock, err))
	}
	return n
}

// afterLocked posts what completions have led to.
func (s *Stream) afterLocked() {
	s.drainLocked()
	s.out.flush()
}

// attend is the stream's goroutine: it has the baton while no call does.
func (s *Stream) attend() {
	defer s.running.Done()
	w := &s.idler
	for {
		select {
		case <-s.over:
			s.hangUp()
			return
		case <-s.baton.summon:
		}
		if !s.baton.takeIdle(w) {
			continue
		}
		w.flag.Store(false)
		for !w.flag.Load() && !s.baton.wanted() && !s.isOver() {
			if s.poll() == 0 && !s.baton.wanted() {
				s.sleep(w)
			}
		}
		s.baton.pass()
	}
}

// hangUp ends the connection of a stream that has failed, so that the peer sees it, and
// all that is pending ends.
func (s *Stream) hangUp() {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Linger)
	defer cancel()
	_ = s.sock.Disconnect(ctx) // which fails if it is over already
}

// isOver reports whether the stream is failed or closed.
func (s *Stream) isOver() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}
