package rdmaconn

import (
	"fmt"
	"os"
	"time"

	"lwio/internal/wire"
)

// WatchParts is the number of the watchdog's ticks in Config.Timeout.
const WatchParts = 4

// watchdog bounds the time of requests. Its clock are ticks, which traffic.ticks counts.
type watchdog struct {
	timeout time.Duration
	table   *requestTable
	answers *receiver
	credits *credits
	life    *lifecycle
	count   *traffic
}

// Watch is one tick of the watchdog. The supervisor calls it WatchParts times in Config.Timeout.
func (c *Conn) Watch() {
	c.progress.countProcessors()
	c.watchdog.tick()
}

// tick ends the wait for requests older than the timeout, and ends a connection with a request
// that is twice as old. An operation with a deadline of its own is not watched; its request ages
// from when it is given up. An INTERRUPT ages while it holds the only credit.
//
// Source: [OP-110], [OP-113]
func (w *watchdog) tick() {
	now := w.count.ticks.Add(1)
	d := delivery{r: w.answers}
	for i := range w.table.entries {
		s := &w.table.entries[i]
		w.answers.look(s, &d)
		d.handOver()
		word := s.load()
		age := now - s.tick.Load()
		if !word.isOutstanding() || age <= WatchParts {
			continue
		}
		if age > 2*WatchParts && s.load() == word {
			w.life.Fail(fmt.Errorf("no answer in %v: %w", 2*w.timeout, os.ErrDeadlineExceeded))
			return
		}
		if word.state() == requestPending && s.settle(word) {
			w.expire(s)
		}
	}
	w.credits.ageWakeUp(now)
}

// expire ends the wait for the answer to a settling request.
func (w *watchdog) expire(s *Request) {
	t, fid := s.ticket, s.fid
	s.ticket = nil
	s.leave(t.Owner, w.count.ticks.Load())
	t.Owner.Answer(wire.IOStatusBlock{}, ErrTimeout)
	t.late.Store(true) // before the entry can get another generation, which says that t came back
	s.abandon()
	w.credits.cancel(fid, false)
	t.To.Return(t)
}
