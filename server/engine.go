package server

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"lwio/internal/account"
	"lwio/internal/evict"
	"lwio/internal/ratelimit"
	"lwio/internal/seal"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/server/internal/association"
	"lwio/vfs"
)

// engine is the LWIO side of a server. It knows SMB only by the lineages of its association.
type engine struct {
	fs          *vfs.FS
	log         *slog.Logger
	immediate   bool // Config.ImmediateData
	encryption  Encryption
	keyLimit    uint64 // bytes that the key of a sealed connection seals
	limits      Limits
	count       counters
	shares      shareTable
	noise       ratelimit.Log // for log lines that unauthenticated peers cause
	audit       ratelimit.Log // for lines of the audit log that unauthenticated peers cause
	born        time.Time     // zero of clock
	association *association.Association

	rdmaListen       []netip.AddrPort // Config.RDMAListen
	readers, writers *workerPool
	syncers          *workerPool
	credits          creditPool
	spinners         *spinners
	oversubscription *oversubscription
	replay           replayTable
	records          *writeRecords // nil without a state; set before the first connection
	conns            connTable
	registered       *account.Sum // files

	ctx    context.Context // ends when the engine is closed
	cancel context.CancelFunc
	wg     sync.WaitGroup // all goroutines except the workers
	once   sync.Once

	mu      sync.Mutex
	fabrics []*fabric
	stopped bool // no new connections
	closed  bool // no new goroutines
}

// newEngine makes an engine of a configuration with its defaults. The caller closes it.
func newEngine(cfg *Config) *engine {
	e := &engine{
		fs: cfg.FS, log: cfg.Logger, rdmaListen: cfg.RDMAListen, immediate: cfg.ImmediateData, encryption: cfg.Encryption,
		keyLimit: seal.MaxSealed, limits: cfg.Limits, born: time.Now(),
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.association = association.New(association.Config{
		ServerName: cfg.ServerName, Logger: cfg.Logger, AllowMD5: cfg.AllowMD5, ConnectionsPerKey: cfg.Limits.ConnectionsPerKey,
		Fabrics: e.blocks, Go: e.spawn, Closing: e.ctx.Done(),
	})
	e.conns.init(&e.limits, &e.count, evict.NewKnown())
	e.readers = newWorkerPool(e.limits.Workers, func(o *op) { o.work(o.read) })
	e.writers = newWorkerPool(e.limits.Workers, func(o *op) { o.work(o.change) })
	e.writers.joins = (*op).continuedBy
	e.syncers = newWorkerPool(e.limits.Workers, func(o *op) { o.work(o.sync) })
	e.syncers.joins = (*op).syncedWith
	e.spinners = newSpinners(e.limits.BusyPoll)
	e.oversubscription = newOversubscription()
	e.credits.init(e.limits.CreditBudget)
	e.replay.most = e.limits.Connections
	e.registered = account.NewSum(int64(e.limits.Registrations), 0)
	return e
}

// startWatching starts the goroutines that cut stalled connections and balance the credits.
// It is called once.
func (e *engine) startWatching() {
	e.spawn(e.watchStalls)
	e.spawn(e.watchCredits)
}

// clock returns the time since the engine was made. It costs half of time.Now.
func (e *engine) clock() time.Duration { return time.Since(e.born) }

// work performs o and the operations that joined it. A worker calls it.
func (o *op) work(do func()) {
	c, begun, n := o.c, time.Now(), 1 // after deliver, o can be in use for another message
	for next := o.joined.head; next != nil; next = next.next {
		n++
	}
	do()
	c.deliver(o, begun)
	c.jobs.Add(-n)
}

// auditRefusal logs the refusal of an AUTH.
func (e *engine) auditRefusal(c *conn, cause error) {
	e.audit.Log(c.log, LevelAudit, "RDMA connection refused", "error", cause)
}

// spawn runs f in a goroutine that close waits for; false if the engine is closed.
func (e *engine) spawn(f func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.wg.Go(f)
	return true
}

// listen opens all providers on ip and begins to accept. A provider without a device on this
// machine is left out with a warning in the log, unless it is the only one. After an error no
// provider is open.
func (e *engine) listen(ctx context.Context, providers []rdma.Provider, ip netip.Addr) error {
	opened, err := e.open(ctx, providers, ip)
	if err != nil {
		return err
	}
	e.mu.Lock()
	stopped := e.stopped
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

// open opens the providers that have a device.
func (e *engine) open(ctx context.Context, providers []rdma.Provider, ip netip.Addr) ([]*fabric, error) {
	var opened []*fabric
	var missing error
	for _, p := range providers {
		fabrics, err := e.openProvider(ctx, p, ip)
		switch {
		case err == nil:
			opened = append(opened, fabrics...)
		case rdma.StatusOf(err) == rdma.StatusDeviceNotReady:
			missing = errors.Join(missing, err)
		default:
			closeAll(opened)
			return nil, err
		}
	}
	if len(opened) == 0 && missing != nil {
		return nil, missing
	}
	if missing != nil {
		e.log.Warn("lwio: provider left out", "reason", missing)
	}
	return opened, nil
}

// openProvider opens a provider at each address that it is to listen at. The addresses share
// Limits.ReadBufferBytes equally.
func (e *engine) openProvider(ctx context.Context, p rdma.Provider, ip netip.Addr) ([]*fabric, error) {
	at := e.rdmaListen
	if len(at) == 0 {
		at = []netip.AddrPort{netip.AddrPortFrom(ip, 0)}
	}
	if addrs, err := p.Addrs(ctx); err == nil && len(addrs) == 0 {
		at = []netip.AddrPort{{}} // the fabric has no IP addresses
	}
	var opened []*fabric
	for _, a := range at {
		f, err := openFabric(ctx, p, a, &e.limits, e.limits.ReadBufferBytes/len(at))
		if err != nil {
			closeAll(opened)
			return nil, err
		}
		f.named = len(e.rdmaListen) > 0
		f.immediate = e.immediate && f.info.Caps.Has(rdma.CapImmediate)
		opened = append(opened, f)
	}
	return opened, nil
}

func closeAll(fabrics []*fabric) {
	for _, f := range fabrics {
		f.close()
	}
}

// blocks returns the address blocks of the providers that accept connections, one for each
// provider with all of its addresses.
func (e *engine) blocks() []wire.AddressBlock {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return nil
	}
	var all []wire.AddressBlock
	for _, f := range e.fabrics {
		block := f.block()
		i := slices.IndexFunc(all, func(b wire.AddressBlock) bool { return b.Name == block.Name })
		if i < 0 {
			all = append(all, block)
		} else {
			all[i].Instances = append(all[i].Instances, block.Instances...)
		}
	}
	return all
}

// isStopped reports whether the engine refuses new connections.
func (e *engine) isStopped() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stopped
}

// forget removes a connection that has released all its other resources.
func (e *engine) forget(c *conn) {
	if c.auth.passed {
		e.association.Leave(c.auth.client, c)
		e.count.authenticated.Add(-1)
		e.count.credits.Add(-int64(c.credits.granted()))
		e.credits.give(c.credits.charged(), c.credits.holder)
		c.fabric.buffers.leaveUser(c.poolUser)
	}
	e.conns.leave(c)
}

// drain stops accepting and makes every connection end after its requests in flight. It waits for
// the end of all connections, or of ctx.
func (e *engine) drain(ctx context.Context) error {
	e.stopListening()
	select {
	case <-e.conns.drain():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stopListening refuses new connections.
func (e *engine) stopListening() {
	e.mu.Lock()
	e.stopped = true
	fabrics := e.fabrics
	e.mu.Unlock()
	e.conns.stop()
	for _, f := range fabrics {
		f.listener.Close()
	}
}

// close ends all connections and goroutines, and waits for them.
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
		e.syncers.close()
		closeAll(e.fabrics)
	})
}

// watchStalls cuts connections whose initiator requests make no progress for StallTimeout.
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
