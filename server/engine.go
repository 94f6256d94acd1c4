package server

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
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

	readers, writers *lane
	credits          creditPool
	spinners         *spinners
	crowd            *crowd
	outcomes         outcomeTable

	ctx    context.Context // ends when the engine is closed
	cancel context.CancelFunc
	wg     sync.WaitGroup // every goroutine but the lanes'
	once   sync.Once

	mu      sync.Mutex
	fabrics []*fabric
	conns   map[*conn]struct{}
	byID    map[[8]byte]*conn // authenticated ones, by SessionId
	users   map[string]int    // how many each has
	stop    bool              // no new connections
	closed  bool              // no new goroutines
	arrived uint64            // connections so far
	empty   chan struct{}     // made by drain, closed when conns is empty
}

// newEngine makes an engine of a configuration with its defaults filled in. The
// caller closes it.
func newEngine(cfg *Config) *engine {
	e := &engine{
		fs: cfg.FS, name: cfg.ServerName, log: cfg.Logger, allowMD5: cfg.AllowMD5, immediate: cfg.ImmediateData, limits: cfg.Limits, born: time.Now(),
		keys: newKeyTable(cfg.Limits.ConnectionsPerKey), conns: make(map[*conn]struct{}), byID: make(map[[8]byte]*conn),
		users: make(map[string]int),
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.readers = newLane(e.limits.Workers, func(o *op) { o.work(o.readRest) })
	e.writers = newLane(e.limits.Workers, func(o *op) { o.work(o.writeRun) })
	e.writers.joins = (*op).goesOn
	e.spinners = newSpinners(e.limits.SpinTime)
	e.crowd = newCrowd()
	e.credits.hungry = make(chan struct{}, 1)
	e.credits.budget, e.outcomes.most = e.limits.CreditBudget, e.limits.Connections
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
	for next := o.rest.head; next != nil; next = next.next {
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
		all += int64(len(f.arena.bytes))
		taken += int64(len(f.arena.bytes) - f.arena.left())
	}
	return taken, all
}

func (e *engine) stopped() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stop
}

// enter counts a connection and starts it; false says that there are too many. If
// only those are that have not passed AUTH, the newcomer takes the place of one of
// them: who has nothing to show does not keep out who has.
func (e *engine) enter(c *conn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stop || !take(&e.count.connections, e.limits.Connections) {
		return false
	}
	if !take(&e.count.unauthenticated, e.limits.Unauthenticated) {
		e.displaceLocked()
	}
	e.count.accepted.Add(1) // before anybody hears of it
	e.arrived++
	c.number = e.arrived
	e.conns[c] = struct{}{}
	e.wg.Go(c.serve)
	return true
}

// displaceLocked cuts a connection that has not passed AUTH and leaves its place in the
// count to another: the oldest of the host that has most of them, so that a host which
// floods the server displaces itself.
func (e *engine) displaceLocked() {
	strangers := make(map[netip.Addr]int)
	for c := range e.conns {
		if !c.authenticated && !c.displaced {
			strangers[c.host]++
		}
	}
	var oldest *conn
	for c := range e.conns {
		if c.authenticated || c.displaced {
			continue
		}
		if oldest == nil || strangers[c.host] > strangers[oldest.host] ||
			strangers[c.host] == strangers[oldest.host] && c.number < oldest.number {
			oldest = c
		}
	}
	oldest.displaced = true // there is one, or the limit would not be reached
	oldest.cut(errDisplaced)
}

// authenticated is called by a connection that has passed AUTH.
func (e *engine) authenticated(c *conn) {
	e.count.authenticated.Add(1)
	e.count.credits.Add(int64(c.credits.grant))
	e.mu.Lock()
	defer e.mu.Unlock()
	c.authenticated = true
	if !c.displaced {
		e.count.unauthenticated.Add(-1)
	}
	c.since = time.Now()
	e.byID[c.sessionID] = c
}

// connOf finds a user's connection by what AUTH named it; nil if there is none.
func (e *engine) connOf(id [8]byte, user string) *conn {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.byID[id]; c != nil && c.sess.User() == user {
		return c
	}
	return nil
}

// enterUser counts a connection among its user's; false says that those are too many.
func (e *engine) enterUser(c *conn, user string) bool {
	user = strings.ToLower(user)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.users[user] >= e.limits.ConnectionsPerUser {
		return false
	}
	e.users[user]++
	c.user, c.counted = user, true
	return true
}

// leaveUserLocked counts it out, if it was counted in.
func (e *engine) leaveUserLocked(c *conn) {
	if !c.counted {
		return
	}
	if e.users[c.user]--; e.users[c.user] == 0 {
		delete(e.users, c.user)
	}
}

// forget is called by a connection when it has given everything back.
func (e *engine) forget(c *conn) {
	e.count.connections.Add(-1)
	if c.authenticated {
		e.keys.leave(c.pair, c)
		e.count.authenticated.Add(-1)
		e.count.credits.Add(-int64(c.credits.grant))
		e.credits.give(c.credits.grant)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !c.authenticated && !c.displaced {
		e.count.unauthenticated.Add(-1)
	}
	e.leaveUserLocked(c)
	delete(e.conns, c)
	delete(e.byID, c.sessionID)
	if len(e.conns) == 0 && e.empty != nil {
		close(e.empty)
		e.empty = nil
	}
}

// drain stops accepting, lets every connection finish what is in flight, and
// waits until all have ended or ctx has.
func (e *engine) drain(ctx context.Context) error {
	e.stopListening()
	e.mu.Lock()
	gone := make(chan struct{})
	if len(e.conns) == 0 {
		close(gone)
	} else {
		e.empty = gone
	}
	for c := range e.conns {
		c.startDraining()
	}
	e.mu.Unlock()
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
		for c := range e.conns {
			c.cut(errShutdown)
		}
		e.mu.Unlock()
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
		settled uint64
		ticks   int
	}
	marks := make(map[*conn]mark)
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-tick.C:
		}
		e.mu.Lock()
		next := make(map[*conn]mark, len(marks))
		for c := range e.conns {
			if c.owing.Load() == 0 {
				continue
			}
			m := marks[c]
			if s := c.settled.Load(); m.ticks == 0 || m.settled != s {
				m = mark{settled: s}
			}
			if m.ticks++; m.ticks > 4 {
				c.cut(errStalled)
			}
			next[c] = m
		}
		e.mu.Unlock()
		marks = next
	}
}
