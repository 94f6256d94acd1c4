package lwio

import (
	"slices"
	"sync"
)

// closeWatcher is told when a connection ends.
type closeWatcher interface{ connectionFailed() }

// closeWatchers are told when a connection ends, because their goroutines sleep on another.
// Safe for concurrent use.
type closeWatchers struct {
	mu   sync.Mutex
	list []closeWatcher
}

// add adds a watcher, which is told at once if the connection has ended.
func (m *closeWatchers) add(c *conn, w closeWatcher) {
	m.mu.Lock()
	m.list = append(m.list, w)
	m.mu.Unlock()
	if c.isDown() {
		w.connectionFailed()
	}
}

// remove takes a watcher out.
func (m *closeWatchers) remove(w closeWatcher) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = slices.DeleteFunc(m.list, func(o closeWatcher) bool { return o == w })
}

// wake tells all, once the connection is down.
func (m *closeWatchers) wake() {
	m.mu.Lock()
	list := slices.Clone(m.list)
	m.mu.Unlock()
	for _, w := range list {
		w.connectionFailed()
	}
}
