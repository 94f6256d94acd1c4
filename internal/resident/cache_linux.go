package resident

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"lwio/internal/hostmemory"
)

// Bounds of what there is at a time. A process may have 65530 mappings by default; a segment
// is one, and a chunk makes two more of it.
const (
	maxSegments = 8 << 10
	maxChunks   = 16 << 10
	maxQueue    = 64
	stripes     = 8
)

// Cache keeps what is hot of its files, within a budget. It has a goroutine once there is
// something to promote. Safe for concurrent use.
type Cache struct {
	log   *slog.Logger
	heat  *heat // nil: nothing is kept
	reads [stripes]struct {
		n atomic.Uint64
		_ [7]uint64 // a line of the CPU's cache for each
	}
	bytes, limit                   atomic.Int64 // changed with mu held
	promotions, demotions, refused atomic.Uint64
	// full: there is nothing to make room with, before the next sweep at least.
	full atomic.Bool
	stop chan struct{}
	done chan struct{}
	wake chan struct{}

	mu       sync.Mutex // see the package comment
	closed   bool
	working  bool
	queue    []proposal
	lastID   uint64
	files    map[Key]*file // with users, or with chunks that are locked
	dead     []*file       // to be unmapped
	chunks   []*chunk
	hand     int // where the search for room goes on
	segments int
}

// chunk is one that is locked.
type chunk struct {
	f     *file
	s     *segment
	i     int
	bytes int
	idle  int // sweeps that found it unused
}

// proposal is a chunk that is hot, with a descriptor of its own.
type proposal struct {
	f     *file
	fd    int
	index uint64
}

// New makes a cache. The caller closes it after the views, of which some may stay.
func New(cfg Config) *Cache {
	c := &Cache{
		log: cfg.Logger, files: make(map[Key]*file), stop: make(chan struct{}), done: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	budget := cfg.Budget
	if budget == 0 {
		budget = DefaultBudget()
	}
	if bits.UintSize < 64 || budget <= 0 {
		return c // no room for mappings, or for what they would show
	}
	threshold := cfg.Threshold
	if threshold <= 0 {
		threshold = DefaultThreshold
	}
	c.limit.Store(budget)
	c.heat = newHeat(budget>>chunkBits, min(threshold, math.MaxInt32))
	return c
}

// DefaultBudget is an eighth of the memory that this process may have, and no more than it
// may lock, in bytes.
func DefaultBudget() int64 {
	budget := hostmemory.Usable() / 8
	var l unix.Rlimit
	if !mayLockAll() && unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l) == nil && l.Cur < uint64(budget) {
		budget = int64(l.Cur)
	}
	return budget
}

// mayLockAll tells whether no limit holds for the memory that this process locks.
func mayLockAll() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_IPC_LOCK) != 0
}

// Stats returns the counters.
func (c *Cache) Stats() Stats {
	s := Stats{
		Bytes: c.bytes.Load(), Budget: c.limit.Load(),
		Promotions: c.promotions.Load(), Demotions: c.demotions.Load(), Refused: c.refused.Load(),
	}
	for i := range c.reads {
		s.Reads += c.reads[i].n.Load()
	}
	return s
}

// Close ends the promotions, and waits for one that is under way, as long as ctx lets it.
// Nothing is kept any more of files without views; of the others it goes with the last. A
// second Close waits too.
//
// Errors: that of ctx, while a disk is waited for.
func (c *Cache) Close(ctx context.Context) error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.stop)
		if !c.working {
			close(c.done)
		}
		for _, f := range c.files {
			c.leaveLocked(f)
		}
	}
	c.mu.Unlock()
	c.bury()
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("resident: close: a disk is waited for: %w", ctx.Err())
	}
}

// propose hands a hot chunk to the cache's goroutine, unless there is no use in that; it is
// false if the goroutine has too much to do.
func (c *Cache) propose(v *View, index uint64) bool {
	if c.full.Load() || v.file.until.Load() > c.heat.now() {
		return true
	}
	if !c.mu.TryLock() {
		return false
	}
	defer c.mu.Unlock()
	if c.closed || len(c.queue) == maxQueue {
		return c.closed
	}
	fd, err := unix.FcntlInt(uintptr(v.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return true
	}
	c.queue = append(c.queue, proposal{v.file, fd, index})
	if !c.working {
		c.working = true
		go c.work()
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return true
}

// next takes a proposal out of the queue.
func (c *Cache) next() (p proposal, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		return p, false
	}
	p = c.queue[0]
	c.queue = append(c.queue[:0], c.queue[1:]...)
	return p, true
}

// work is the cache's goroutine. It has a timer while something is kept.
func (c *Cache) work() {
	defer close(c.done)
	timer := time.NewTimer(SweepEvery)
	timer.Stop()
	defer timer.Stop()
	for due := false; ; {
		select {
		case <-c.stop:
			for p, ok := c.next(); ok; p, ok = c.next() {
				unix.Close(p.fd)
			}
			return
		case <-c.wake:
			for p, ok := c.next(); ok; p, ok = c.next() {
				c.consider(p)
			}
		case <-timer.C:
			due = false
			c.sweep()
		}
		c.bury()
		if !due && c.bytes.Load() > 0 {
			timer.Reset(SweepEvery)
			due = true
		}
	}
}
