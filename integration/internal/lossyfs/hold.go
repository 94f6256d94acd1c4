package lossyfs

import "sync"

// HoldSyncs has the syncs from now on wait until release, which may be called twice.
func (f *FS) HoldSyncs() (release func()) {
	held := make(chan struct{})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = held
	return sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.held = nil
		close(held)
	})
}

// HeldSyncs returns the number of syncs that wait for release.
func (f *FS) HeldSyncs() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.waiting
}

// awaitReleaseLocked waits while syncs are held. Precondition: mu is held; it is free meanwhile.
func (f *FS) awaitReleaseLocked() {
	for f.held != nil {
		held := f.held
		f.waiting++
		f.mu.Unlock()
		<-held
		f.mu.Lock()
		f.waiting--
	}
}
