package server

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"lwio/internal/ratelimit"
	"lwio/rdma"
	"lwio/vfs"
)

// engine is the LWIO side of a server: everything but SMB, of which it knows
// only the sessions.
type engine struct {
	fs       *vfs.FS
	name     string
	log      *slog.Logger
	allowMD5 bool
	// immediate is Config.ImmediateData.
	immediate bool
	limits    Limits
	count     counters
	shares    shareTable
	noise     ratelimit.Log // of what strangers cause
	born      time.Time     // when clock began
	keys      *keyTable

	readers, writers *workerPool
	credits          creditPool
	spinners         *spinners
	oversubscription *oversubscription
	replay           replayTable
	conns            connTable

	ctx    context.Context // ends when the engine is closed
	cancel context.CancelFunc
	wg     sync.WaitGroup // every goroutine but the workers'
	once   sync.Once

	mu      sync.Mutex
	fabrics []*fabric
	stop    bool // no new connections
	closed  bool // no new goroutines
}

// newEngine makes an engine of a configuration with its defaults filled in. The
// caller closes it.
func newEngine(cfg *Config) *engine {
	e := &engine{
		fs: cfg.FS, name: cfg.ServerName, log: cfg.Logger, allowMD5: cfg.AllowMD5, immediate: cfg.ImmediateData, limits: cfg.Limits, born: time.Now(),
		keys: newKeyTable(cfg.Limits.ConnectionsPerKey),
	}
	e.conns.init(&e.limits, &e.count)
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.readers = newWorkerPool(e.limits.Workers, func(o *op) { o.work(o.readRest) })
	e.writers = newWorkerPool(e.limits.Workers, func(o *op) { o.work(o.writeRun) })
	e.writers.joins = (*op).goesOn
	e.spinners = newSpinners(e.limits.SpinTime)
	e.oversubscription = newOversubscription()
	e.credits.exhausted = make(chan struct{}, 1)
	e.credits.budget, e.replay.most = e.limits.CreditBudget, e.limits.Connections
	return e
}

// lookAfter sees to it that connections which stall are cut, and that credits go to those who
// have use for them. It is called once.
func (e *engine) lookAfter() {
	e.spawn(e.watchStalls)
	e.spawn(e.watchCredits)
}

// clock is the time since the engine was made. To ask for it costs half of what time.Now
// does.
func (e *engine) clock() time.Duration { return time.Since(e.born) }

// work is a worker's part.
func (o *op) work(do func()) {
	c, begun, n := o.c, time.Now(), 1 // o may be at work again as soon as it is delivered
	for next := o.joined.head; next != nil; next = next.next {
		n++
	}
	do()
	c.deliver(o, begun)
	c.jobs.Add(-n)
}

// spawn runs f in a goroutine that close waits for; false says that the engine
// is closed.
func (e *engine) spawn(f func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.wg.Go(f)
	return true
}

// listen opens all providers on ip and begins to accept. A provider that has no
// device here is left out, and the log says so, as long as there is another. On
// failure nothing is left open.
func (e *engine) listen(ctx context.Context, providers []rdma.Provider, ip netip.Addr) error {
	var opened []*fabric
	var missing error
	for _, p := range providers {
		f, err := openFabric(ctx, p, ip, &e.limits)
		if err == nil {
			f.immediate = e.immediate && f.info.Caps.Has(rdma.CapImmediate)
		}
		switch {
		case err == nil:
			opened = append(opened, f)
		case rdma.StatusOf(err) == rdma.StatusDeviceNotReady:
			missing = errors.Join(missing, err)
		default:
			closeAll(opened)
			return err
		}
	}
	if len(opened) == 0 && missing != nil {
		return missing
	}
	if missing != nil {
		e.log.Warn("lwio: going on without a provider", "reason", missing)
	}
	e.mu.Lock()
	stopped := e.stop
	if !stopped {
		e.fabrics = append(e.fabrics, opened...)
		for _, f := range opened {
			e.wg.Go(func() { e.accept(f) })
		}
	}
	e.mu.Unlock()
	for _, f := range opened {
		if stopped {
			f.close()
			continue
		}
		e.log.Info("lwio: listening", "provider", f.name, "address", f.addr)
	}
	return nil
}

func closeAll(fabrics []*fabric) {
	for _, f := range fabrics {
		f.close()
	}
}

// listening lists the providers that clients can be told of.
func (e *engine) listening() []*fabric {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stop {
		return nil
	}
	return e.fabrics
}

// readMemory is what reads have of the memory of all providers, and what there is, in
// bytes.
func (e *engine) readMemory() (taken, all int64) {
	e.mu.Lock()
	fabrics := e.fabrics
	e.mu.Unlock()
	for _, f := range fabrics {
		all += int64(len(f.buffers.bytes))
		taken += int64(len(f.buffers.bytes) - f.buffers.left())
	}
	return taken, all
}

func (e *engine) stopped() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stop
}

// forget is called by a connection when it has given everything back.
func (e *engine) forget(c *conn) {
	if c.auth.passed {
		e.keys.leave(c.auth.pair, c)
		grant := c.credits.granted()
		e.count.authenticated.Add(-1)
		e.count.credits.Add(-int64(grant))
		e.credits.give(grant)
	}
	e.conns.leave(c)
}

// drain stops accepting, lets every connection finish what is in flight, and
// waits until all have ended or ctx has.
func (e *engine) drain(ctx context.Context) error {
	e.stopListening()
	gone := e.conns.drain()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stopListening refuses new connections.
func (e *engine) stopListening() {
	e.mu.Lock()
	e.stop = true
	fabrics := e.fabrics
	e.mu.Unlock()
	e.conns.stop()
	for _, f := range fabrics {
		f.listener.Close()
	}
}

// close ends everything and waits for it.
func (e *engine) close() {
	e.once.Do(func() {
		e.stopListening()
		e.mu.Lock()
		e.closed = true
		e.mu.Unlock()
		e.conns.each(func(c *conn) { c.cut(errShutdown) })
		e.cancel()
		e.wg.Wait()
		e.readers.close()
		e.writers.close()
		closeAll(e.fabrics)
	})
}

// watchStalls cuts connections that owe the server the room for answers and
// make no progress.
func (e *engine) watchStalls() {
	tick := time.NewTicker(max(e.limits.StallTimeout/4, time.Millisecond))
	defer tick.Stop()
	type mark struct {
		completed uint64
		ticks     int
	}
	marks := make(map[*conn]mark)
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-tick.C:
		}
		next := make(map[*conn]mark, len(marks))
		e.conns.each(func(c *conn) {
			if c.send.inUse.Load() == 0 {
				return
			}
			m := marks[c]
			if done := c.send.completed.Load(); m.ticks == 0 || m.completed != done {
				m = mark{completed: done}
			}
			if m.ticks++; m.ticks > 4 {
				c.cut(errStalled)
			}
			next[c] = m
		})
		marks = next
	}
}
