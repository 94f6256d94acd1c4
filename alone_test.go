package lwio

import (
	"testing"
	"time"
)

// Of requests that are alone and polled for by choice one in eight is timed; any other is.
func TestAlone(t *testing.T) {
	for what, x := range map[string]struct {
		change func(c *conn, s *slot)
		as     slotState
		alone  bool
	}{
		"alone":                {func(*conn, *slot) {}, slotPending, true},
		"adaptive":             {func(c *conn, _ *slot) { c.cfg.mode = Adaptive }, slotPending, false},
		"nothing to poll":      {func(c *conn, _ *slot) { c.polling.Store(false) }, slotPending, false},
		"others in flight":     {func(c *conn, _ *slot) { c.sent.Add(1) }, slotPending, false},
		"no I/O":               {func(_ *conn, s *slot) { s.kind = kindControl }, slotPending, false},
		"nobody's":             {func(*conn, *slot) {}, slotAbandoned, false},
		"long the time before": {func(_ *conn, s *slot) { s.late.Store(5) }, slotPending, true},
	} {
		c, s := &conn{cfg: connConfig{mode: Polling}}, &slot{kind: kindRead}
		c.polling.Store(true)
		x.change(c, s)
		timed := 0
		for range 3 * timedEvery {
			if alone := c.aloneLocked(s, x.as); alone != x.alone || alone != s.alone {
				t.Fatalf("%s: alone is %v", what, alone)
			}
			if c.singles%timedEvery == 1 {
				timed++
			}
		}
		if x.alone && (timed != 3 || s.late.Load() != 0) {
			t.Errorf("%s: %d are timed, late is %d", what, timed, s.late.Load())
		}
		if !x.alone && c.singles != 0 {
			t.Errorf("%s: %d counted", what, c.singles)
		}
	}
}

// A request that was not timed counts as long as the last that was, unless it took long.
func TestDelayOfAlone(t *testing.T) {
	c := &conn{born: time.Now()}
	const now, usual = 100_000, 700
	for _, x := range []struct {
		what               string
		alone              bool
		began, late        int64
		took, usuallyAfter int64
	}{
		{"one of many", false, 99_000, 0, 1000, usual},
		{"timed", true, 98_000, 0, 2000, 2000},
		{"timed, and long", true, 10_000, 20_000, 90_000, usual},
		{"not timed", true, 0, 0, usual, usual},
		{"not timed, and long", true, 0, 20_000, 80_000, usual},
	} {
		c.usual.Store(usual)
		s := &slot{alone: x.alone, began: x.began}
		s.late.Store(x.late)
		l := landing{at: now}
		if took := l.delay(c, s); took != x.took || c.usual.Load() != x.usuallyAfter {
			t.Errorf("%s: took %d, not %d; usually %d, not %d", x.what, took, x.took, c.usual.Load(), x.usuallyAfter)
		}
	}
}
