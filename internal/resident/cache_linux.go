package resident

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"lwio/internal/hostmemory"
)

// Bounds of what there is at a time. A process may have 65530 mappings by default; a segment
// is one, and a chunk makes two more of it.
const (
	maxSegments = 8 << 10
	maxChunks   = 16 << 10
	stripes     = 8
)

// Cache keeps what is hot of its files, within a budget. It has a goroutine for each device of
// which there is something to promote, and one that looks after what is kept. Safe for
// concurrent use.
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
	// populate reads mapped memory, and waits for the disk.
	populate func(mem []byte) error

	mu       sync.Mutex // see the package comment
	closed   bool
	sweeping bool
	running  int                   // goroutines
	queues   map[uint64][]proposal // of each device that has a goroutine
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

// New makes a cache. The caller closes it after the views, of which some may stay.
func New(cfg Config) *Cache {
	c := &Cache{
		log: cfg.Logger, files: make(map[Key]*file), queues: make(map[uint64][]proposal),
		stop: make(chan struct{}), done: make(chan struct{}), populate: populate,
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

// Close ends the promotions, and waits for those that are under way, as long as ctx lets it.
// Nothing is kept any more of files without views; of the others it goes with the last. A
// second Close waits too.
//
// Errors: that of ctx, while a disk is waited for.
func (c *Cache) Close(ctx context.Context) error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.stop)
		if c.running == 0 {
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
