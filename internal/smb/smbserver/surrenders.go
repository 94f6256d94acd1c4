package smbserver

import "sync"

// surrenders runs functions in goroutines of their own, until stop. It is a leaf: add may be called with any lock.
// Safe for concurrent use.
type surrenders struct {
	mu      sync.Mutex
	stopped bool
	running sync.WaitGroup
}

// add runs f, unless stop was called.
func (s *surrenders) add(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.running.Go(f)
	}
}

// stop waits for the functions, and makes add do nothing.
func (s *surrenders) stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.running.Wait()
}
