package stream

import (
	"io"
	"os"
	"sync"
	"time"
)

// reader is the calls of a stream that read. Safe for concurrent use.
type reader struct {
	c  *connection
	rx *receiver
	in *input

	calls       sync.Mutex // held by one Read, and by WriteTo while it waits
	urgentCalls sync.Mutex // held by one ReadUrgent
	deadline    deadline
}

func (r *reader) init(c *connection, rx *receiver) {
	r.c, r.rx, r.in = c, rx, &rx.input
	r.deadline.wake = func() {
		c.signal(&c.readWait)
		c.signal(&c.urgentWait)
	}
}

// Read reads data of the peer's stream, at least one byte, and waits if there is none. Small
// data is copied into p as it arrives. Data that the peer offers is fetched straight into p,
// if p is large enough. The caller owns p again when Read returns. A fetch in flight into p
// can delay the return.
//
// Errors: io.EOF after the end of the peer's stream, and after CloseRead;
// os.ErrDeadlineExceeded; net.ErrClosed after Close; ErrReset; ErrProtocol. Data that arrived
// before an error is read first.
//
// Source: [WSD §5.1], [WSD §5.2], [WSD §7]
func (r *reader) Read(p []byte) (int, error) {
	r.calls.Lock()
	defer r.calls.Unlock()
	n, err := r.read(p)
	r.c.counts.bytesIn.Add(uint64(n))
	return n, err
}

func (r *reader) read(p []byte) (total int, err error) {
	var late overdue
	defer late.stop()
	w := &r.c.readWait
	for {
		w.flag.Store(false)
		r.rx.mu.Lock()
		n, pending, err := r.readLocked(p[total:], total > 0)
		total += n
		r.rx.mu.Unlock()
		switch {
		case pending:
			late.check(r.c, &r.deadline)
		case total > 0:
			return total, nil
		case err != nil || len(p) == 0:
			return 0, err
		}
		r.c.wait(w)
		if !pending {
			if n := r.takeTarget(); n > 0 {
				return n, nil
			}
		}
	}
}

// readLocked reads data that is here, and starts fetches of offers. If there is neither, and
// p is not the rest of the memory of a Read, data that arrives goes into p, and the caller
// has to wait. pending says that fetches into p are in flight, so the Read must not return
// p.
func (r *reader) readLocked(p []byte, follows bool) (n int, pending bool, err error) {
	r.in.fetch.abandon()
	if err := r.readableLocked(); err != nil || len(p) == 0 {
		n = r.in.collectLate(p)
		return n, r.in.fetch.used > 0, err
	}
	r.in.dropRead()
	if n, pending = r.in.fill(p, follows); n > 0 || pending || follows {
		return n, pending, nil
	}
	return 0, false, r.demandLocked(p)
}

// demandLocked makes p the target of data that arrives, or fetches an offer into memory of
// the stream.
func (r *reader) demandLocked(p []byte) error {
	in := r.in
	if in.items.len() == 0 {
		err := in.ended()
		if err == nil {
			in.target, in.filled = p, 0
		}
		return err
	}
	if t := in.items.at(0).offer; t.left() > 0 && in.fetch.busy == 0 && in.views == 0 && r.c.failure() == nil {
		in.fetchAside(t)
	}
	return r.c.failure()
}

// takeTarget ends the use of a Read's memory for data that arrives, and returns how many
// bytes came.
func (r *reader) takeTarget() int {
	r.rx.mu.Lock()
	defer r.rx.mu.Unlock()
	n := r.in.filled
	r.in.target, r.in.filled = nil, 0
	return n
}

// readableLocked returns why no data can be read even if there is some, or nil.
func (r *reader) readableLocked() error {
	switch {
	case r.c.closing.Load():
		return errClosed
	case r.deadline.over.Load():
		return os.ErrDeadlineExceeded
	case r.in.discard:
		return io.EOF
	}
	return nil
}

// CloseRead ends reading. Read returns io.EOF. Data that has arrived or arrives later is
// dropped.
func (r *reader) CloseRead() error {
	if r.c.closing.Load() {
		return errClosed
	}
	r.rx.mu.Lock()
	r.in.discardAll()
	r.rx.mu.Unlock()
	r.c.signal(&r.c.readWait)
	r.c.signal(&r.c.urgentWait)
	return nil
}

// ReadUrgent waits for urgent data, and reads the payload of one message of the peer, or the
// rest of that payload. Its errors are the errors of Read.
//
// Source: [WSD §5.5]
func (r *reader) ReadUrgent(p []byte) (n int, err error) {
	r.urgentCalls.Lock()
	defer r.urgentCalls.Unlock()
	u := &r.rx.urgent
	for r.rx.awaited(&r.c.urgentWait, func() bool {
		if err = r.readableLocked(); err != nil || len(p) == 0 {
			return true
		}
		if u.parts.len() == 0 {
			err = r.in.ended()
			return err != nil
		}
		n = u.pop(p)
		return true
	}) {
	}
	if n == 0 && err == nil && len(p) > 0 {
		err = r.c.failure()
	}
	return n, err
}

// SetReadDeadline sets when Read, ReadUrgent and WriteTo give up, including calls that wait
// already.
func (r *reader) SetReadDeadline(t time.Time) error {
	if r.c.closing.Load() {
		return errClosed
	}
	r.deadline.set(t)
	return nil
}

// overdue ends the connection if a call whose deadline has passed cannot return, because the
// peer or the provider still uses its memory.
//
// Source: [WSD §7]
type overdue struct{ timer *time.Timer }

// check starts the clock once the call should have ended.
func (l *overdue) check(c *connection, d *deadline) {
	if l.timer == nil && (d.over.Load() || c.closing.Load()) {
		l.timer = time.AfterFunc(c.cfg.Linger, func() { c.fail(errStuck) })
	}
}

// stop stops the clock.
func (l *overdue) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}
