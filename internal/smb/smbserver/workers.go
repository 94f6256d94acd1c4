package smbserver

import (
	"sync"
	"sync/atomic"
)

// maxIdleWorkers bounds the goroutines of a connection that wait for the read turn; a
// further idle goroutine ends.
const maxIdleWorkers = 2

// workers is the worker pool of one connection. Its goroutines, between one and limit, take
// turns at reading a message and then serve it. A parked request has an additional
// goroutine. It is safe for concurrent use.
type workers struct {
	limit     int // goroutines that read and serve
	waitLimit int // goroutines of parked requests
	// next reads a message; ok is false when there are no more, and the result is nil
	// when nothing is left to serve. The caller holds turn.
	next func() (m *message, ok bool)
	// closed is called by the last goroutine.
	closed func()

	turn sync.Mutex   // held by the goroutine that reads
	idle atomic.Int32 // goroutines that wait for turn

	mu     sync.Mutex
	total  int // goroutines, parked ones included
	parked int
}

// start starts the first goroutine.
func (w *workers) start() {
	w.total = 1
	go w.run()
}

// run takes turns at reading a message, and serves the message.
func (w *workers) run() {
	defer w.leave()
	for {
		w.idle.Add(1)
		w.turn.Lock()
		w.idle.Add(-1)
		m, ok := w.next()
		if m != nil && w.idle.Load() == 0 {
			w.grow()
		}
		w.turn.Unlock()
		if !ok {
			return
		}
		if m == nil {
			continue
		}
		m.run()
		if w.idle.Load() >= maxIdleWorkers {
			return
		}
	}
}

// grow starts another goroutine if the limit allows one.
func (w *workers) grow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.total-w.parked < w.limit {
		w.total++
		go w.run()
	}
}

// park runs f in a goroutine that does not count as a worker. It reports false if too many
// are parked.
func (w *workers) park(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.parked >= w.waitLimit {
		return false
	}
	w.parked++
	w.total++
	go func() {
		defer w.leave()
		f()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.parked--
	}()
	return true
}

// leave ends one goroutine; the last one ends the connection. A connection that reads
// messages has at least one goroutine: a goroutine ends only while two others wait for the
// turn, or after the last message.
func (w *workers) leave() {
	w.mu.Lock()
	w.total--
	last := w.total == 0
	w.mu.Unlock()
	if last {
		w.closed()
	}
}
