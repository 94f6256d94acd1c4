package stream

import (
	"sync"
	"sync/atomic"
	"time"
)

// closer ends a stream. Safe for concurrent use.
//
// Source: [WSD §7]
type closer struct {
	c       *connection
	rx      *receiver
	tx      *sender
	offers  *offers
	stage   *stage
	reader  *reader
	writer  *writer
	running sync.WaitGroup // the goroutine of the stream

	linger     atomic.Int64  // how long Close waits for the peer, in nanoseconds
	giveUp     *time.Timer   // ends a Close; set by BeginClose
	closed     chan struct{} // closed when EndClose is over
	afterClose func()        // called when the socket is closed; may be nil

	answered  bool // the peer knows that this side has its data; receiver.mu guards it
	delivered bool // the peer has all written data; receiver.mu guards it
}

func (l *closer) init(c *connection, rx *receiver, tx *sender, f *offers, g *stage, r *reader, w *writer) {
	l.c, l.rx, l.tx, l.offers, l.stage, l.reader, l.writer = c, rx, tx, f, g, r, w
	l.closed = make(chan struct{})
	l.linger.Store(int64(c.cfg.Linger))
}

// takeShutdown handles a shutdown message of the peer: the peer's stream ends, the peer
// closes, or the peer has all data of this side.
//
// Source: [WSD §7]
func (l *closer) takeShutdown(m *Message) error {
	in := &l.rx.input
	switch m.Flags {
	case FlagTaken:
		if !l.c.closing.Load() || l.delivered {
			return violation("%v: an answer to nothing", m.Type)
		}
		l.delivered = true
		l.c.signal(&l.c.closeWait)
		return nil
	case FlagClosing:
		if l.c.peerClosed.Swap(true) {
			return violation("%v: for the second time", m.Type)
		}
		l.offers.dropAll(ErrPeerClosed)
		l.c.signal(&l.c.writeWait)
	default:
		if in.eof {
			return violation("%v: for the second time", m.Type)
		}
	}
	in.eof = true
	l.c.signal(&l.c.readWait)
	l.c.signal(&l.c.urgentWait)
	return nil
}

// progressLocked fetches the data of a peer that has closed, and answers the peer once all
// data is here.
func (l *closer) progressLocked() {
	if !l.c.peerClosed.Load() || l.answered || l.c.failure() != nil || !l.rx.input.drain() {
		return
	}
	l.answered = true
	l.tx.enqueue(Message{Type: TypeShutdown, Flags: FlagTaken})
}

// SetLinger sets how long Close waits for the peer to take the written data. 0 resets the
// connection instead; a negative value is Config.Linger.
func (l *closer) SetLinger(d time.Duration) {
	if d < 0 {
		d = l.c.cfg.Linger
	}
	l.linger.Store(int64(d))
}

// Close ends the connection. Calls that wait return. When Close returns, the peer has the
// data that was written before, if the peer runs and takes the data in time. The program of
// the peer may not have read the data yet. A second Close waits for the first and fails with
// net.ErrClosed.
//
// Source: [WSD §7]
func (l *closer) Close() error {
	if !l.BeginClose() {
		<-l.closed
		return errClosed
	}
	return l.EndClose()
}

// BeginClose is the first part of Close, which does not wait: calls return, and the time of
// SetLinger begins. EndClose is the second part. BeginClose returns false if it was called
// before.
func (l *closer) BeginClose() bool {
	if l.c.closing.Swap(true) {
		return false
	}
	linger := time.Duration(l.linger.Load())
	if linger == 0 {
		l.c.fail(errClosed)
	}
	l.giveUp = time.AfterFunc(max(linger, time.Millisecond), func() { l.c.fail(errLinger) })
	l.c.wakeAll()
	return true
}

// EndClose is the second part of Close. Any goroutine calls it once, after a BeginClose that
// returned true.
func (l *closer) EndClose() error {
	defer close(l.closed)
	for _, calls := range []*sync.Mutex{&l.writer.calls, &l.reader.calls, &l.reader.urgentCalls} {
		awaitCalls(calls) // later calls do nothing
	}
	l.disconnect()
	l.giveUp.Stop()
	return l.release()
}

// awaitCalls waits for the calls that hold a lock.
func awaitCalls(calls *sync.Mutex) {
	calls.Lock()
	defer calls.Unlock()
}

// disconnect tells the peer that this side closes, waits until the peer has the written data,
// and ends the connection.
func (l *closer) disconnect() {
	if !l.rx.isStarted() || l.c.failure() != nil {
		return
	}
	l.rx.mu.Lock()
	l.rx.input.discardAll()
	l.rx.mu.Unlock()
	sent := false
	for l.rx.awaited(&l.c.closeWait, func() bool {
		if l.rx.input.fetch.busy > 0 {
			return false // the peer must not end the connection before, because this frees the memory
		}
		if !sent {
			sent = true
			l.tx.enqueue(Message{Type: TypeShutdown, Flags: FlagClosing})
			l.tx.flush()
		}
		return l.delivered
	}) {
	}
	if l.c.failure() == nil {
		l.c.hangUp() // the close of the socket does the rest
	}
}

// release stops the goroutine and the timers of the stream, and closes the socket. If calls
// still use memory of the stream, the last of them closes the socket.
func (l *closer) release() error {
	l.c.fail(errClosed)
	l.running.Wait()
	l.reader.deadline.stop()
	l.writer.deadline.stop()
	l.rx.mu.Lock()
	l.c.dead.Store(true)
	used := l.rx.users > 0
	l.c.trimTimer.Stop()
	l.rx.mu.Unlock()
	if used {
		return nil // the goroutine of the stream has disconnected
	}
	return l.closeSocket()
}

// closeSocket closes the socket, and gives the memory of the budget back.
func (l *closer) closeSocket() error {
	err := l.c.sock.Close()
	l.rx.mu.Lock()
	held := l.rx.input.budget + l.rx.input.fetch.held() + l.stage.held()
	l.rx.mu.Unlock()
	l.c.cfg.Memory.give(held)
	if l.afterClose != nil {
		l.afterClose()
	}
	return err
}

// AfterClose sets a function that is called once the socket is closed. If memory of the
// stream is in use during Close, the socket is closed after Close. AfterClose must be called
// before the stream is shared.
func (l *closer) AfterClose(f func()) { l.afterClose = f }

// Abort closes the stream and drops written data that is not delivered.
func (l *closer) Abort() {
	l.linger.Store(0)
	_ = l.Close() // its error is about the release of memory alone
}
