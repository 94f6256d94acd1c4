package lwio

import (
	"slices"
	"sync"
)

// mourners are the batches that are to be woken when a connection ends, because they may
// sleep on another. Safe for concurrent use.
type mourners struct {
	mu   sync.Mutex
	list []*Batch
}

// add adds a batch, which is woken at once if the connection has ended.
func (m *mourners) add(c *conn, b *Batch) {
	m.mu.Lock()
	m.list = append(m.list, b)
	m.mu.Unlock()
	if c.isDown() {
		b.jolt()
	}
}

// remove takes a batch out.
func (m *mourners) remove(b *Batch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = slices.DeleteFunc(m.list, func(o *Batch) bool { return o == b })
}

// wake wakes all, once the connection is down.
func (m *mourners) wake() {
	m.mu.Lock()
	list := slices.Clone(m.list)
	m.mu.Unlock()
	for _, b := range list {
		b.jolt()
	}
}

// jolt makes the batch look at its connections.
func (b *Batch) jolt() {
	b.jolted.Store(true)
	b.rouse()
}
