//go:build linux

package shm

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"lwio/rdma/shm/internal/ring"
)

// Bounds of the descriptors of peers that wait to be closed.
const (
	maxForeignOfUser = 4
	maxForeign       = 256
)

// foreign closes descriptors that peers sent in place of memory or sockets. The close of
// such a descriptor may never end: a file system in user space answers it, or not. One
// goroutine closes the descriptors of a user, so a user can block one thread. While too
// many descriptors of a user wait, no descriptor of that user is received. Safe for
// concurrent use.
type foreign struct {
	total atomic.Int64 // descriptors that are not closed; changed under mu

	mu     sync.Mutex       // guards the fields below
	byUser map[uint32][]int // a user has an entry while its goroutine runs
	count  map[uint32]int   // descriptors of a user that are not closed
}

// due returns the number of descriptors to receive from a user, if a message carries n: n or
// 0. The kernel drops the descriptors that are not received, and never calls the file
// system for that.
func (f *foreign) due(uid uint32, n int) int {
	if f.total.Load() == 0 {
		return n
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count[uid] >= maxForeignOfUser || f.total.Load() >= maxForeign {
		return 0
	}
	return n
}

// discard closes descriptors of a user. It does not wait for a file system.
func (f *foreign) discard(uid uint32, fds []int) {
	for _, fd := range fds {
		if ring.ClosesAtOnce(fd) {
			_ = unix.Close(fd)
		} else {
			f.enter(uid, fd)
		}
	}
}

// enter gives a descriptor to the goroutine of its user.
func (f *foreign) enter(uid uint32, fd int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byUser == nil {
		f.byUser, f.count = make(map[uint32][]int), make(map[uint32]int)
	}
	f.count[uid]++
	f.total.Add(1)
	if _, runs := f.byUser[uid]; !runs {
		go f.closeAll(uid)
	}
	f.byUser[uid] = append(f.byUser[uid], fd)
}

// closeAll closes the descriptors of a user until there are none.
func (f *foreign) closeAll(uid uint32) {
	for fd, ok := f.next(uid); ok; fd, ok = f.next(uid) {
		_ = unix.Close(fd)
		f.closed(uid)
	}
}

// next takes a descriptor of a user. Without one, the goroutine of the user ends.
func (f *foreign) next(uid uint32) (fd int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fds := f.byUser[uid]
	if len(fds) == 0 {
		delete(f.byUser, uid)
		return -1, false
	}
	f.byUser[uid] = fds[1:]
	return fds[0], true
}

// closed counts a descriptor as closed.
func (f *foreign) closed(uid uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.total.Add(-1)
	if f.count[uid]--; f.count[uid] == 0 {
		delete(f.count, uid)
	}
}
