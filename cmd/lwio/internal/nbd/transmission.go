package nbd

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"lwio/cmd/lwio/internal/nbd/nbdwire"
)

// The limits of one connection. At most maxWorkers*batchSize reads and writes are in flight.
const (
	maxWorkers = 8
	batchSize  = 64
	maxSlow    = 32
)

// handOverTime is how long a leader may wait for completions, or write replies, before another worker reads the
// next requests.
const handOverTime = 300 * time.Microsecond

// transmission is a connection after its handshake.
type transmission struct {
	export     *Export
	conn       net.Conn
	structured bool
	timeout    time.Duration // of a write to the connection that makes no progress
	log        *slog.Logger

	in     inbox // the leader's
	memory arena
	slow   chan struct{} // one for each request that has a goroutine
	wg     sync.WaitGroup

	draining atomic.Bool

	mu      sync.Mutex
	leader  *worker // nil if all workers finish their operations
	spare   []*worker
	workers int
	ended   bool // no more requests are read
	failure error

	send     sync.Mutex // guards the writes of conn and the fields below
	deadline time.Time
	buffer   []byte // replies are gathered here for a connection of TLS
}

// run serves requests until the client disconnects, the connection fails, or drain was called, and the replies
// to all requests are written. When ctx ends, requests in flight are given up.
func (t *transmission) run(ctx context.Context) error {
	t.slow = make(chan struct{}, maxSlow)
	t.memory = arena{client: t.export.client, freed: make(chan struct{}, 1)}
	t.in = newInbox(t.conn)
	stop := context.AfterFunc(ctx, func() { t.fail(context.Cause(ctx)) })
	defer stop()
	t.mu.Lock()
	t.promote(ctx)
	t.mu.Unlock()
	t.wg.Wait()
	for _, w := range t.spare {
		w.close()
	}
	if b := t.in.partial.block; b.of != nil {
		t.memory.release(b, false)
	}
	t.memory.close()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failure
}

// drain makes the connection end after the replies to the requests that it has read.
func (t *transmission) drain() {
	t.draining.Store(true)
	_ = t.conn.SetReadDeadline(time.Unix(1, 0)) // wakes the leader
}

// promote makes a worker the leader, unless there is one, or there are too many.
// Precondition: mu is held.
func (t *transmission) promote(ctx context.Context) {
	if t.leader != nil || t.ended {
		return
	}
	var w *worker
	if n := len(t.spare); n > 0 {
		w, t.spare = t.spare[n-1], t.spare[:n-1]
	} else if t.workers < maxWorkers {
		t.workers++
		w = newWorker(t)
	} else {
		return // the first worker that has finished is the next leader
	}
	t.leader = w
	t.wg.Go(func() { w.run(ctx) })
}

// handOver makes another worker the leader if w still waits.
func (t *transmission) handOver(ctx context.Context, w *worker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leader == w && w.waiting {
		t.leader = nil
		t.promote(ctx)
	}
}

// setWaiting notes whether w may lose the lead, and returns whether it leads. w becomes the leader if there is none.
func (t *transmission) setWaiting(w *worker, waiting bool) (leads bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w.waiting = waiting
	if t.leader == nil && !t.ended {
		t.leader = w
	}
	return t.leader == w
}

// retire takes w, which has no operations, out of work, unless it becomes the leader.
func (t *transmission) retire(w *worker) (leads bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leader == nil && !t.ended {
		t.leader = w
		return true
	}
	t.spare = append(t.spare, w)
	return false
}

// abandon takes w, which may have operations, out of work for good, when the connection is given up.
func (t *transmission) abandon(w *worker) {
	t.end(nil)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spare = append(t.spare, w)
}

// end ends the reading of requests; err is nil at a regular end.
func (t *transmission) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended, t.leader = true, nil
	if t.failure == nil {
		t.failure = err
	}
}

// fail ends the connection, whose client gets no more replies.
func (t *transmission) fail(err error) {
	t.end(err)
	t.conn.Close()
}

// write writes replies, in parts that follow one another.
func (t *transmission) write(parts net.Buffers) error {
	t.send.Lock()
	defer t.send.Unlock()
	if now := time.Now(); t.deadline.Sub(now) < t.timeout*3/4 {
		t.deadline = now.Add(t.timeout)
		if err := t.conn.SetWriteDeadline(t.deadline); err != nil {
			return err
		}
	}
	if t.in.raw != nil { // one system call writes all parts
		_, err := parts.WriteTo(t.conn)
		return err
	}
	return t.writeGathered(parts)
}

// gatherSize is the size of the memory in which replies are gathered, in bytes.
const gatherSize = 64 << 10

// writeGathered writes small parts together: each write to a connection of TLS is a record of its own.
// Precondition: send is held.
func (t *transmission) writeGathered(parts net.Buffers) error {
	b := t.buffer[:0]
	for _, p := range parts {
		if len(b)+len(p) > gatherSize && len(b) > 0 {
			if _, err := t.conn.Write(b); err != nil {
				return err
			}
			b = b[:0]
		}
		if len(p) > gatherSize/2 {
			if len(b) > 0 {
				if _, err := t.conn.Write(b); err != nil {
					return err
				}
				b = b[:0]
			}
			if _, err := t.conn.Write(p); err != nil {
				return err
			}
			continue
		}
		b = append(b, p...)
	}
	t.buffer = b
	if len(b) == 0 {
		return nil
	}
	_, err := t.conn.Write(b)
	return err
}

// answer writes the reply to a request without data.
func (t *transmission) answer(cookie uint64, err error) {
	if err := t.write(net.Buffers{t.appendAnswer(nil, cookie, err)}); err != nil {
		t.fail(err)
	}
}

// appendAnswer appends the reply to a request without data.
func (t *transmission) appendAnswer(b []byte, cookie uint64, err error) []byte {
	switch e := errnoOf(err); {
	case !t.structured:
		return nbdwire.AppendSimpleReply(b, cookie, e)
	case e != 0:
		return nbdwire.AppendError(b, cookie, e, err.Error())
	}
	return nbdwire.AppendDone(b, cookie)
}

// refusal is an error value of the protocol with its cause.
type refusal struct {
	errno nbdwire.Errno
	text  string
}

// Error is the cause.
func (r refusal) Error() string { return r.text }

// Unwrap is the error value.
func (r refusal) Unwrap() error { return r.errno }
