package iwarp

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"lwio/internal/test/skip"
	"lwio/rdma"
)

// linked returns the connection of a side when pollers can drive it.
func linked(t testing.TB, e *side) *conn {
	t.Helper()
	qp := e.qp.(*queuePair)
	until(t, "the connection runs", func() bool { return qp.driven.Load() != nil })
	return qp.driven.Load()
}

func until(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(testTimeout); !f(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("did not happen: ", what)
		}
	}
}

// linkedPair returns two sides with sockets that pollers can read.
func linkedPair(t testing.TB) (client, server *side) {
	client, server = connect(t, nil, nil, shape{depth: 64, sge: 1, buf: 4096})
	if client.qp.(*queuePair).c.raw == nil {
		skip.Test(t, "sockets are read by their own goroutines on this system")
	}
	return client, server
}

// say sends a message and takes its result.
func say(e *side) {
	e.t.Helper()
	e.post(rdma.Request{Op: rdma.OpSend, ID: 99, SGL: e.sgl(0, 8)})
	e.want(rdma.OpSend, 99, rdma.StatusSuccess)
}

// write writes 8 bytes to the word of seen.
func write(e, peer *side) {
	e.t.Helper()
	e.post(rdma.Request{Op: rdma.OpWrite, ID: 98, SGL: e.sgl(8, 8), Remote: peer.at(1024)})
	e.want(rdma.OpWrite, 98, rdma.StatusSuccess)
}

// seen waits until the word that write changes begins with b.
func seen(t *testing.T, e *side, b byte) {
	t.Helper()
	word := (*uint64)(unsafe.Pointer(&e.buf[1024]))
	until(t, "the write arrives", func() bool {
		var v [8]byte
		binary.NativeEndian.PutUint64(v[:], atomic.LoadUint64(word))
		return v[0] == b
	})
}

// waitOnSocket starts a Wait that sleeps on the socket.
func waitOnSocket(t testing.TB, ctx context.Context, e, peer *side) (*conn, chan error) {
	t.Helper()
	c := linked(t, e)
	for {
		done := make(chan error, 1)
		go func() { done <- e.cq.Wait(ctx, rdma.NotifyAny) }()
		until(t, "Wait waits", func() bool { return c.sleeper.parked.Load() || c.qp.Sleepers() > 0 })
		if c.sleeper.parked.Load() {
			return c, done
		}
		// The reader has the role, and now has seen that another goroutine wants it.
		endWait(e, peer, done)
	}
}

// endWait ends a Wait with a message.
func endWait(e, peer *side, done chan error) {
	e.t.Helper()
	e.recv(2, 0, 8)
	say(peer)
	if err := <-done; err != nil {
		e.t.Fatal(err)
	}
	e.want(rdma.OpReceive, 2, rdma.StatusSuccess)
}

// waitOnceOnSocket returns when a Wait has slept on the socket.
func waitOnceOnSocket(t *testing.T, client, server *side) *conn {
	t.Helper()
	c, done := waitOnSocket(t, t.Context(), server, client)
	endWait(server, client, done)
	return c
}

// A call of Wait reads the socket itself. A message, a result from another goroutine, its
// context, or the end of the connection ends the wait. Meanwhile the call also places
// writes to memory.
//
// Source: [ND CompletionQueue.Notify], [ND §6.4]
func TestWaitReadsTheSocketItself(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, client, server *side, cancel func()) error{
		"message": func(_ *testing.T, client, server *side, _ func()) error {
			say(client)
			return nil
		},
		"own result": func(_ *testing.T, _, server *side, _ func()) error {
			server.post(rdma.Request{Op: rdma.OpWrite})
			return nil
		},
		"flush": func(t *testing.T, _, server *side, _ func()) error {
			if err := server.qp.Flush(); err != nil {
				t.Error(err)
			}
			return nil
		},
		"context": func(_ *testing.T, _, _ *side, cancel func()) error {
			cancel()
			return context.Canceled
		},
		"peer's end": func(t *testing.T, client, _ *side, _ func()) error {
			if err := client.con.Disconnect(t.Context()); err != nil {
				t.Error(err)
			}
			return nil
		},
		"own end": func(_ *testing.T, _, server *side, _ func()) error {
			server.con.Close()
			return nil
		},
		"queue's end": func(_ *testing.T, _, server *side, _ func()) error {
			server.cq.Close()
			return rdma.StatusCanceled
		},
		"write, then message": func(t *testing.T, client, server *side, _ func()) error {
			client.buf[8] = 1
			write(client, server)
			seen(t, server, 1)
			say(client)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			client, server := linkedPair(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c, done := waitOnSocket(t, ctx, server, client)
			server.recv(7, 0, 8)
			want := end(t, client, server, cancel)
			if err := <-done; !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
			if c.sleeper.role.Load() == roleWaiter {
				t.Error("still the sleeper")
			}
		})
	}
}

// During a long Wait no timer wakes the reader. When Wait returns, it has read all data.
// Two looks then do nothing: one for the results of the Wait, one for the results of the
// answers.
func TestLongWaitStopsTheReadersTimer(t *testing.T) {
	client, server := linkedPair(t)
	c := waitOnceOnSocket(t, client, server)
	c.sleeper.absence.Store(int64(time.Hour))
	c.sleeper.stops.Store(timerStops)
	looks := func() int {
		c.rx.mu.Lock()
		defer c.rx.mu.Unlock()
		return c.rx.looks.looks
	}
	stopped := 0 // the number of times that the timer did not run; an earlier timer may have expired
	until(t, "the timer is stopped", func() bool {
		ran := c.sleeper.armed.Load()
		_, done := waitOnSocket(t, t.Context(), server, client)
		if ran && !c.sleeper.armed.Load() {
			stopped++
		}
		server.recv(2, 0, 8)
		say(client)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		var res [4]rdma.Result
		before := looks()
		for i, want := range []int{1, 0, 0} {
			if n, err := server.cq.Poll(res[:]); n != want || err != nil || looks() != before {
				t.Fatalf("poll %d: %d results, %v, %d looks", i, n, err, looks()-before)
			}
		}
		until(t, "a look reads again", func() bool {
			_, err := server.cq.Poll(res[:])
			return err != nil || looks() != before
		})
		return stopped == 3
	})
}

// Wait calls over at a time when Unpark would already wake it. No change is missed then,
// and no earlier Wait can consume the change.
//
// Source: [ND CompletionQueue.Notify]
func TestParkChecksOverAfterUnparkCanFindIt(t *testing.T) {
	for name, end := range map[string]func(c *conn) bool{
		"over before": func(*conn) bool { return true },
		"over after":  func(c *conn) bool { c.unpark(); return false },
	} {
		t.Run(name, func(t *testing.T) {
			client, server := linkedPair(t)
			c := waitOnceOnSocket(t, client, server)
			asked := 0
			until(t, "no goroutine sleeps on the socket", func() bool {
				if c.park(func() bool {
					if !c.sleeper.parked.Load() {
						return false
					}
					asked++
					return end(c)
				}) {
					return true
				}
				// The reader has the role again, and leaves it at its next wake-up.
				server.recv(2, 0, 8)
				say(client)
				server.want(rdma.OpReceive, 2, rdma.StatusSuccess)
				return false
			})
			if asked != 1 {
				t.Errorf("asked %d times", asked)
			}
		})
	}
}

// A canceled wait has no effect on the next.
func TestCanceledWaitLeavesNoTrace(t *testing.T) {
	client, server := linkedPair(t)
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		_, done := waitOnSocket(t, ctx, server, client)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
}

// After polls or waits have stopped, the connection is still served: writes appear, and
// the end of the connection is detected.
//
// Source: [RFC 5040 §6.2]
func TestReaderReturnsWhenPollersStop(t *testing.T) {
	for name, use := range map[string]func(t *testing.T, client, server *side) *conn{
		"poll":   pollHot,
		"notify": waitOnceOnSocket,
	} {
		t.Run(name, func(t *testing.T) {
			client, server := linkedPair(t)
			c := use(t, client, server)
			for i := range 20 {
				client.buf[8] = byte(i + 1)
				write(client, server)
				seen(t, server, byte(i+1))
			}
			until(t, "the reader is back", func() bool { return c.sleeper.role.Load() == roleReader })
			use(t, client, server)
			client.con.Close()
			server.wantDone()
		})
	}
}

// pollHot polls until the reader leaves. The rate of polls does not matter: the streak
// begins in the future, so the clock does not end it on a busy machine.
func pollHot(t *testing.T, client, server *side) *conn {
	t.Helper()
	c := linked(t, server)
	left := false
	poll := func() int {
		var res [1]rdma.Result
		n, err := server.cq.Poll(res[:])
		if err != nil {
			t.Fatal(err)
		}
		left = left || c.sleeper.away.Load()
		return n
	}
	until(t, "the reader leaves", func() bool {
		server.recv(1, 0, 8)
		say(client)
		for poll() == 0 {
		}
		c.rx.mu.Lock()
		c.rx.looks.begun = time.Now().Add(time.Hour)
		c.rx.mu.Unlock()
		for i := 0; i < 4*streakLooks && !left; i++ {
			if n := poll(); n != 0 {
				t.Fatal(n)
			}
		}
		return left
	})
	return c
}

// The reader serves a Wait on one queue of a pair while the other queue is polled or
// waited for.
func TestReaderServesOtherQueueOfPair(t *testing.T) {
	client, server := linkedPair(t)
	c := pollHot(t, client, server)
	if c.qp.Sleep(); c.sleeper.away.Load() && c.sleeper.wanted.Load() {
		t.Error("the reader is not woken")
	}
	until(t, "the reader is back", func() bool { return c.sleeper.role.Load() == roleReader })
	_, parked := waitOnSocket(t, t.Context(), server, client)
	second := make(chan error, 1)
	go func() { second <- server.cq.Wait(t.Context(), rdma.NotifyAny) }()
	until(t, "a call of Wait sleeps", func() bool { return c.qp.Sleepers() > 0 })
	endWait(server, client, parked)
	if err := <-second; err != nil {
		t.Error(err)
	}
}

// A connection without arriving data holds no buffer, after any kind of reader.
func TestIdleConnectionHasNoBuffer(t *testing.T) {
	for name, use := range map[string]func(t *testing.T, client, server *side) *conn{
		"poll": pollHot, "notify": waitOnceOnSocket,
		"once": func(t *testing.T, client, server *side) *conn {
			server.recv(1, 0, 8)
			say(client)
			server.want(rdma.OpReceive, 1, rdma.StatusSuccess)
			return linked(t, server)
		},
	} {
		t.Run(name, func(t *testing.T) {
			client, server := linkedPair(t)
			x := &use(t, client, server).rx
			until(t, "the buffer is given back", func() bool {
				x.mu.Lock()
				defer x.mu.Unlock()
				return x.in.buf == nil
			})
		})
	}
}
