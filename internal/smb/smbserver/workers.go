package smbserver

import (
	"sync"
	"sync/atomic"
)

const (
	// maxIdleWorkers bounds the goroutines of a connection that wait for the read turn; a
	// further idle goroutine ends.
	maxIdleWorkers = 2
	// maxQueued bounds the memory of the messages that wait for a goroutine, in bytes. Above it the
	// connection reads nothing more.
	maxQueued = 32 << 20
)

// workers is the worker pool of one connection. Its goroutines, from one to limit and one more, take
// turns at reading a message and then serve it. While limit goroutines serve, the other one reads and
// queues messages, so that it sees an ECHO or a CANCEL behind them. A parked request has an additional
// goroutine. It is safe for concurrent use.
type workers struct {
	limit     int // goroutines that serve
	waitLimit int // goroutines of parked requests
	// next reads a message; ok is false when there are no more, and the result is nil
	// when nothing is left to serve. The caller holds turn.
	next func() (m *message, ok bool)
	// serve serves a message. queued says that the message had to wait for the goroutine.
	serve func(m *message, queued bool)
	// closed is called by the last goroutine.
	closed func()

	turn sync.Mutex   // held by the goroutine that reads
	idle atomic.Int32 // goroutines that wait for turn

	mu      sync.Mutex
	total   int // goroutines
	others  int // goroutines that are no workers: parked, aside, or beside
	parked  int // goroutines that are parked or aside
	serving int
	queue   []*message // while serving is limit
	queued  int64      // bytes of queue
	room    sync.Cond  // of mu; signalled when queued falls
}

// start starts the first goroutine.
func (w *workers) start() {
	w.room.L = &w.mu
	w.total = 1
	go w.run()
}

// run takes turns at reading a message, and serves the message and those that wait.
func (w *workers) run() {
	defer w.leave()
	for {
		m, ok := w.read()
		if !ok {
			return
		}
		if m == nil {
			continue
		}
		w.serve(m, false)
		for m = w.served(); m != nil; m = w.served() {
			w.serve(m, true)
		}
		if w.idle.Load() >= maxIdleWorkers {
			return
		}
	}
}

// read takes the turn and reads a message. It returns nil if the caller has nothing to serve. ok is false
// after the last message.
func (w *workers) read() (m *message, ok bool) {
	w.idle.Add(1)
	w.turn.Lock()
	w.idle.Add(-1)
	defer w.turn.Unlock()
	if m, ok = w.next(); m == nil || !w.begin(m) {
		return nil, ok
	}
	if w.idle.Load() == 0 {
		w.grow()
	}
	return m, ok
}

// begin reports whether the caller may serve a message. Otherwise the message is queued; if the queue is
// full, begin waits.
func (w *workers) begin(m *message) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.serving >= w.limit && w.queued >= maxQueued {
		w.room.Wait()
	}
	if w.serving < w.limit {
		w.serving++
		return true
	}
	w.queue = append(w.queue, m)
	w.queued += m.size()
	return false
}

// served ends the service of a message. It returns the next one that waits, nil if there is none.
func (w *workers) served() *message {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.room.Signal()
	if len(w.queue) == 0 || w.serving > w.limit { // a goroutine that was aside is back
		w.serving--
		return nil
	}
	return w.takeLocked()
}

// takeLocked takes the first message of the queue. Precondition: mu is held.
func (w *workers) takeLocked() *message {
	m := w.queue[0]
	w.queue[0] = nil // the array stays for a while
	w.queue = w.queue[1:]
	w.queued -= m.size()
	w.room.Signal()
	return m
}

// grow starts another goroutine if the limit allows one.
func (w *workers) grow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.total-w.others <= w.limit {
		w.total++
		go w.run()
	}
}

// aside runs f, which may wait for another message of the connection. The caller serves a message and does not
// count as a worker meanwhile, unless too many are parked: a message that waits is served.
func (w *workers) aside(f func()) {
	w.mu.Lock()
	if w.parked >= w.waitLimit {
		w.mu.Unlock()
		f()
		return
	}
	w.parked++
	w.others++
	w.serving--
	if len(w.queue) > 0 {
		m := w.takeLocked()
		w.serving++
		w.total++
		go w.serveQueued(m)
	}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.parked--
		w.others--
		w.serving++
	}()
	f()
}

// serveQueued serves a message that waited, and those behind it.
func (w *workers) serveQueued(m *message) {
	defer w.leave()
	for ; m != nil; m = w.served() {
		w.serve(m, true)
	}
}

// beside runs f in a goroutine that is no worker. It reports false if the connection has ended.
func (w *workers) beside(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.total == 0 {
		return false
	}
	w.total++
	w.others++
	go func() {
		defer w.leave()
		f()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.others--
	}()
	return true
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
	w.others++
	w.total++
	go func() {
		defer w.leave()
		f()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.parked--
		w.others--
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
