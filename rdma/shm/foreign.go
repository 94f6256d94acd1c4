//go:build linux

package shm

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"lwio/rdma/shm/internal/ring"
)

// Bounds of the threads that wait for descriptors of peers, and of the descriptors that
// wait for such a thread.
const (
	maxForeignOfUser = 4
	maxForeign       = 256
)

// callGrace is how long a system call on a socket of a peer may go on after its time limit.
const callGrace = 200 * time.Millisecond

// errForeign: too many system calls wait for descriptors of the user.
var errForeign = errors.New("too many descriptors of the peer's user wait to be closed")

// foreign bounds the threads that descriptors of peers keep. The close of a descriptor may
// never end: a TCP socket lingers, and a file system in user space answers, or not. The
// kernel closes a descriptor in the receive that has no room for it, and in the close of a
// socket that holds it in an unread message. One goroutine closes the received descriptors
// of a user. A receive or close that takes too long goes on in its goroutine. While too many
// descriptors and calls of a user wait, no descriptor and no connection of that user is
// received. Safe for concurrent use.
type foreign struct {
	total atomic.Int64 // waits of all users; changed under mu

	mu      sync.Mutex       // guards the fields below
	byUser  map[uint32][]int // a user has an entry while its goroutine runs
	waiting map[uint32]int   // descriptors that are not closed, and calls that go on
}

// due returns the number of descriptors to receive from a user, if a message carries n: n or
// 0.
func (f *foreign) due(uid uint32, n int) int {
	if f.full(uid) {
		return 0
	}
	return n
}

// full reports whether too much waits for descriptors of a user.
func (f *foreign) full(uid uint32) bool {
	if f.total.Load() == 0 {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.waiting[uid] >= maxForeignOfUser || f.total.Load() >= maxForeign
}

// call makes system calls on the socket of a user's peer in a goroutine, and waits for them
// until ctx and callGrace end. It returns false if they go on. They then count against the
// user until they end. The caller no longer uses the variables of do, and the goroutine calls
// undo.
func (f *foreign) call(ctx context.Context, uid uint32, do, undo func()) bool {
	var left atomic.Bool // by the goroutine or by the caller
	done := make(chan struct{})
	go func() {
		do()
		if !left.CompareAndSwap(false, true) {
			undo()
			f.leave(uid)
		}
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}
	grace := time.NewTimer(callGrace)
	defer grace.Stop()
	select {
	case <-done:
		return true
	case <-grace.C:
	}
	f.enter(uid)
	if left.CompareAndSwap(false, true) {
		return false
	}
	f.leave(uid)
	return true
}

// expired is a context that has ended.
var expired = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// hangUp closes a socket of a user's peer. The close may go on in the background.
func (f *foreign) hangUp(uid uint32, nc *net.UnixConn) {
	f.call(expired, uid, func() { nc.Close() }, func() {})
}

// enter counts a wait for a user.
func (f *foreign) enter(uid uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.enterLocked(uid)
}

func (f *foreign) enterLocked(uid uint32) {
	if f.waiting == nil {
		f.byUser, f.waiting = make(map[uint32][]int), make(map[uint32]int)
	}
	f.waiting[uid]++
	f.total.Add(1)
}

// leave ends a wait.
func (f *foreign) leave(uid uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.total.Add(-1)
	if f.waiting[uid]--; f.waiting[uid] == 0 {
		delete(f.waiting, uid)
	}
}

// discard closes descriptors of a user. It does not wait for other kinds of files than
// memory.
func (f *foreign) discard(uid uint32, fds []int) {
	for _, fd := range fds {
		if ring.IsMemory(fd) {
			_ = unix.Close(fd)
		} else {
			f.add(uid, fd)
		}
	}
}

// add gives a descriptor to the goroutine of its user.
func (f *foreign) add(uid uint32, fd int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.enterLocked(uid)
	if _, runs := f.byUser[uid]; !runs {
		go f.closeAll(uid)
	}
	f.byUser[uid] = append(f.byUser[uid], fd)
}

// closeAll closes the descriptors of a user until there are none.
func (f *foreign) closeAll(uid uint32) {
	for fd, ok := f.next(uid); ok; fd, ok = f.next(uid) {
		_ = unix.Close(fd)
		f.leave(uid)
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
