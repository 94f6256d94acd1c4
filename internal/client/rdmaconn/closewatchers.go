package rdmaconn

import (
	"slices"
	"sync"
)

// closeWatcher is notified when a connection ends.
type closeWatcher interface{ connectionFailed() }

// closeWatchers are the queues of operations that wait on one connection, and have requests in
// flight on this one. Safe for concurrent use.
type closeWatchers struct {
	mu   sync.Mutex
	list []closeWatcher
}

func (m *closeWatchers) add(w closeWatcher) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = append(m.list, w)
}

func (m *closeWatchers) remove(w closeWatcher) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = slices.DeleteFunc(m.list, func(o closeWatcher) bool { return o == w })
}

// notify notifies all.
func (m *closeWatchers) notify() {
	m.mu.Lock()
	list := slices.Clone(m.list)
	m.mu.Unlock()
	for _, w := range list {
		w.connectionFailed()
	}
}
