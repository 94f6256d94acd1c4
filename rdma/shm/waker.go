//go:build linux

package shm

import (
	"sync/atomic"
	"syscall"

	"lwio/rdma/shm/internal/ring"
)

// waker wakes the peer when it sleeps and this side has work for it. Safe for concurrent
// use while the segments are mapped.
type waker struct {
	own, peer  *ring.Segment
	raw        syscall.RawConn
	notify     func(fd uintptr) // sends a wake-up on the socket
	doorbell   func()           // rings the peer's doorbell
	woken      atomic.Uint64    // the sleep of the peer that was ended last
	prediction wakePrediction
}

func (w *waker) init(own, peer *ring.Segment, raw syscall.RawConn, d *ring.Doorbell) {
	w.own, w.peer, w.raw = own, peer, raw
	w.notify = wakeNotifier()
	if d != nil {
		w.doorbell = d.Ring
	}
	w.prediction.init()
}

// wake wakes the peer after work was published for it.
func (w *waker) wake() {
	s := w.peer.Sleep.Load()
	w.prediction.answered(s)
	w.end(s)
}

// end wakes the peer if s, the sleep word in its segment, says that it sleeps. One
// wake-up is enough for each sleep, even if there was no work for the peer yet: the peer
// writes another word before it sleeps again, and then looks for work. This side
// publishes first and reads the word afterwards, so either the peer sees the published
// entries or this side sees the new word.
func (w *waker) end(s uint64) {
	if s&ring.SleepMask == ring.Awake || w.woken.Swap(s) == s {
		return
	}
	switch s & ring.SleepMask {
	case ring.SleepSocket:
		_ = w.raw.Control(w.notify)
	case ring.SleepDoorbell:
		w.doorbell()
	case ring.SleepFutex:
		ring.RaceRelease()
		w.own.Futex.Add(1)
		ring.FutexWake(&w.own.Futex)
	}
}

// madeRoom wakes a peer that waits for room in its ring. Call it after this side took
// entries.
func (w *waker) madeRoom() {
	if w.peer.Waiting.Load() != 0 {
		w.wake()
	}
}

// peerPolls reports whether the peer finds new entries without a wake-up.
func (w *waker) peerPolls() bool { return w.peer.Sleep.Load()&ring.SleepMask == ring.Awake }
