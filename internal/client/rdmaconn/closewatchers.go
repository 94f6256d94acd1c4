package rdmaconn

import (
	"slices"
	"sync"
)

// closeWatcher is notified when a connection ends.
type closeWatcher interface{ connectionFailed() }

// closeWatchers are notified when a connection ends, because their goroutines sleep on another.
// Safe for concurrent use.
type closeWatchers struct {
	mu   sync.Mutex
	list []closeWatcher
}

// Add adds a watcher, which is notified at once if the connection has ended.
func (m *closeWatchers) Add(c *Conn, w closeWatcher) {
	m.mu.Lock()
	m.list = append(m.list, w)
	m.mu.Unlock()
	if c.IsDown() {
		w.connectionFailed()
	}
}

// Remove takes a watcher out.
func (m *closeWatchers) Remove(w closeWatcher) {
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
