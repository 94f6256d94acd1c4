package nbd

import (
	"context"
	"math/bits"
	"slices"
	"sync"

	"lwio"
	"lwio/internal/buddy"
)

// The sizes of an arena, in bytes. An arena has room for two of the largest requests.
const (
	arenaSize = 2 * maxRequest
	poolSize  = 4 << 20
	arenaUnit = 4096
)

// order is the order of the smallest block that holds n bytes.
func order(n int) int {
	return bits.Len(uint((max(n, 1) - 1) / arenaUnit))
}

// arena is the registered memory of a connection. It grows by pools as requests need them, up to arenaSize. Safe
// for concurrent use.
type arena struct {
	client *lwio.Client
	freed  chan struct{} // capacity 1; has a value after memory was released

	mu    sync.Mutex
	pools []*pool // for blocks of up to poolSize
	size  int     // bytes of all Buffers
}

// pool is one Buffer of an arena: with many blocks, or with a single one that is larger than poolSize.
type pool struct {
	buf    *lwio.Buffer
	blocks *buddy.Range // nil for a single block
	out    int          // blocks that are allocated
	old    bool         // not in arena.pools: closed with the last block
}

// block is memory of an arena. The zero value has none.
type block struct {
	p  []byte
	of *pool
	at int32
}

// alloc allocates n bytes, 1 to maxRequest. It reports false if there is no room now.
func (a *arena) alloc(ctx context.Context, n int) (block, bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n > poolSize {
		return a.single(ctx, n)
	}
	for _, p := range a.pools {
		if at, ok := p.blocks.Alloc(order(n)); ok {
			return p.block(at, n), true, nil
		}
	}
	p, err := a.grow(ctx, poolSize)
	if p == nil || err != nil {
		return block{}, false, err
	}
	p.blocks = buddy.New(poolSize/arenaUnit, order(poolSize))
	a.pools = append(a.pools, p)
	at, _ := p.blocks.Alloc(order(n)) // it is empty
	return p.block(at, n), true, nil
}

// block is the block of n bytes at a unit of a pool.
func (p *pool) block(at int32, n int) block {
	p.out++
	return block{p.buf.Bytes()[int(at)*arenaUnit:][:n:n], p, at}
}

// single allocates a block of more than poolSize bytes. Pools without blocks make room for it.
// Precondition: mu is held.
func (a *arena) single(ctx context.Context, n int) (block, bool, error) {
	if a.size+n > arenaSize {
		a.pools = slices.DeleteFunc(a.pools, func(p *pool) bool {
			if p.out > 0 {
				return false
			}
			a.drop(p)
			return true
		})
	}
	p, err := a.grow(ctx, n)
	if p == nil || err != nil {
		return block{}, false, err
	}
	p.old = true
	return p.block(0, n), true, nil
}

// grow returns a new pool of n bytes; nil if the arena would be too large. Precondition: mu is held.
func (a *arena) grow(ctx context.Context, n int) (*pool, error) {
	if a.size+n > arenaSize {
		return nil, nil
	}
	buf, err := a.client.Alloc(ctx, n)
	if err != nil {
		return nil, err
	}
	a.size += n
	return &pool{buf: buf}, nil
}

// drop frees the memory of a pool. Precondition: mu is held.
func (a *arena) drop(p *pool) {
	a.size -= len(p.buf.Bytes())
	_ = p.buf.Close() // it has no error
}

// release frees a block, or none. After a failed request the server may still use the memory of the pool; then the
// pool is not used again.
func (a *arena) release(b block, failed bool) {
	p := b.of
	if p == nil {
		return
	}
	a.mu.Lock()
	if p.blocks != nil {
		p.blocks.Release(b.at)
	}
	p.out--
	if failed && !p.old && p.buf.Busy() {
		p.old = true
		a.pools = slices.DeleteFunc(a.pools, func(q *pool) bool { return q == p })
	}
	if p.old && p.out == 0 {
		a.drop(p)
	}
	a.mu.Unlock()
	a.signal()
}

// signal wakes the leader that waits for room.
func (a *arena) signal() {
	select {
	case a.freed <- struct{}{}:
	default:
	}
}

// close frees the memory. Precondition: no block is out.
func (a *arena) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.pools {
		a.drop(p)
	}
	a.pools = nil
}
