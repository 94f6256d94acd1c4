//go:build linux

package shm

import (
	"context"
	"errors"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"lwio/internal/test/leakcheck"
	"lwio/internal/test/skip"
	"lwio/rdma"
	"lwio/rdma/shm/internal/ring"
)

// sleepWays are the ways to sleep in Wait.
var sleepWays = map[string]struct {
	cfg *Config
	how uint64
}{
	"poller": {nil, ring.SleepDoorbell},
	"futex":  {&Config{BlockingWait: true}, ring.SleepFutex},
}

// asleep waits until a goroutine of a side sleeps in the given way.
func asleep(tb testing.TB, s *side, how uint64) {
	tb.Helper()
	eventually(tb, "a goroutine sleeps", func() bool { return s.inside().own.Sleep.Load()&ring.SleepMask == how })
}

// A goroutine that waits for one connection sleeps where the peer wakes it. Every event
// that can end its wait does. Source: [ND CompletionQueue.Notify], design decision 11
func TestWaitSleepsWherePeerWakesIt(t *testing.T) {
	for name, way := range sleepWays {
		t.Run(name, func(t *testing.T) {
			leakcheck.Check(t)
			active, passive := connected(t, way.cfg, 4096)
			if _, err := passive.qp.PostReceive(make([]rdma.ReceiveRequest, 100)); err != nil {
				t.Fatal(err)
			}
			const rings = 64
			wait := func(ctx context.Context) chan error {
				done := make(chan error, 1)
				go func() { done <- passive.rcq.Wait(ctx, rdma.NotifyAny) }()
				asleep(t, passive, way.how)
				return done
			}
			ctx, cancel := context.WithCancel(t.Context())
			for range rings {
				done := wait(ctx)
				active.post(t, rdma.Request{Op: rdma.OpSend})
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				next(t, passive.rcq)
				next(t, active.icq)
			}
			done := wait(ctx)
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("canceled: %v", err)
			}
			done = wait(t.Context())
			if err := passive.qp.Flush(); err != nil { // by another goroutine
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Errorf("flushed: %v", err)
			}
			for range 100 - rings {
				next(t, passive.rcq)
			}
			if _, err := passive.qp.PostReceive(make([]rdma.ReceiveRequest, 1)); err != nil {
				t.Fatal(err)
			}
			done = wait(t.Context())
			active.conn.Close()
			if err := <-done; err != nil {
				t.Errorf("the peer leaves: %v", err)
			}
			if res := next(t, passive.rcq); res.Status != rdma.StatusCanceled {
				t.Errorf("the peer leaves: %+v", res)
			}
			done = make(chan error, 1)
			go func() { done <- passive.rcq.Wait(t.Context(), rdma.NotifyAny) }()
			passive.rcq.Close()
			if err := <-done; !errors.Is(err, rdma.StatusCanceled) {
				t.Errorf("closed: %v", err)
			}
			passive.a.Close()
			active.a.Close()
		})
	}
}

// A wake-up allocates nothing.
func TestSleepAllocatesNothing(t *testing.T) {
	if raceEnabled {
		skip.Test(t, "the race detector allocates")
	}
	for name, way := range sleepWays {
		t.Run(name, func(t *testing.T) {
			active, passive := connected(t, way.cfg, 4096)
			ping, pong := newPlayer(active, true), newPlayer(passive, true)
			for _, p := range []*player{ping, pong} {
				if _, err := p.s.qp.PostReceive(p.recv[:]); err != nil {
					t.Fatal(err)
				}
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				for pong.take(t) == nil && pong.send() == nil {
				}
			}()
			allocatesNothing(t, "a wake-up", func() {
				if ping.send() != nil || ping.take(t) != nil {
					t.Fatal("no message arrives")
				}
			})
			active.conn.Close()
			<-done
		})
	}
}

// If a goroutine that slept in Wait does not return, or another goroutine waits for the
// same connection on another queue, run takes over.
func TestRunTakesOverWhenWaitersStop(t *testing.T) {
	for name, way := range sleepWays {
		t.Run(name, func(t *testing.T) {
			active, passive := connected(t, way.cfg, 4096)
			region := must[rdma.MemoryRegion](t)(passive.a.RegisterMemory(t.Context(), make([]byte, 8), readable))
			for range 5 {
				if _, err := passive.qp.PostReceive(make([]rdma.ReceiveRequest, 1)); err != nil {
					t.Fatal(err)
				}
				done := make(chan error, 2)
				go func() { done <- passive.rcq.Wait(t.Context(), rdma.NotifyAny) }()
				asleep(t, passive, way.how)
				active.post(t, rdma.Request{Op: rdma.OpSend})
				if res := next(t, active.icq); res.Status != rdma.StatusSuccess {
					t.Fatal(res.Status)
				}
				if err := <-done; err != nil { // before another goroutine waits at that queue
					t.Fatal(err)
				}
				if res := next(t, passive.rcq); res.Status != rdma.StatusSuccess {
					t.Fatal(res.Status)
				}
				// No goroutine polls any more, so run must handle the response to a read.
				if res := active.read(t, active.sge(0, 8), region.RemoteAddr()); res.Status != rdma.StatusSuccess {
					t.Fatal(res.Status)
				}
			}
			go func() { _ = passive.icq.Wait(t.Context(), rdma.NotifyAny) }()
			asleep(t, passive, way.how)
			if res := active.read(t, active.sge(0, 8), region.RemoteAddr()); res.Status != rdma.StatusSuccess {
				t.Fatal(res.Status)
			}
			active.deliver(t, passive)
			passive.icq.Close()
		})
	}
}

// If a peer rings without end, or its doorbell is closed, only the direct wake-up is
// lost.
func TestBrokenDoorbellFallsBackToSocket(t *testing.T) {
	active, passive := connected(t, nil, 4096)
	doorbell := active.inside().sleeper.doorbell
	stop, stopped := make(chan struct{}), make(chan struct{})
	harms := []func(){
		func() {
			go func() {
				defer close(stopped)
				for {
					select {
					case <-stop:
						return
					default:
						doorbell.Ring()
					}
				}
			}()
		},
		func() { close(stop); <-stopped },
		doorbell.Close,
	}
	if _, err := passive.qp.PostReceive(make([]rdma.ReceiveRequest, len(harms))); err != nil {
		t.Fatal(err)
	}
	for _, harm := range harms {
		done := make(chan error, 1)
		go func() { done <- passive.rcq.Wait(t.Context(), rdma.NotifyAny) }()
		harm()
		active.post(t, rdma.Request{Op: rdma.OpSend})
		passive.inside().nudge()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		next(t, passive.rcq)
	}
}

// A peer that sends an invalid doorbell is refused, and leaves no resources behind.
// Source: design decision 11
func TestInvalidDoorbellIsRefused(t *testing.T) {
	socket := func() int { return socketEnd(t, unix.SOCK_STREAM) }
	doorbells := map[string]func() []int{
		"none":     func() []int { return nil },
		"half":     func() []int { return []int{socket()} },
		"too many": func() []int { return []int{socket(), socket(), socket()} },
	}
	for name, bad := range map[string]func() int{
		"pipe": func() int {
			var p [2]int
			if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
				t.Fatal(err)
			}
			_ = unix.Close(p[1])
			return p[0]
		},
		"memory":    func() int { return must[int](t)(unix.MemfdCreate("bad", unix.MFD_CLOEXEC)) },
		"datagrams": func() int { return socketEnd(t, unix.SOCK_DGRAM) },
		"TCP": func() int {
			return must[int](t)(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
		},
	} {
		doorbells[name+" to be rung"] = func() []int { return []int{bad(), socket()} }
		doorbells[name+" to ring"] = func() []int { return []int{socket(), bad()} }
	}
	for name, make := range doorbells {
		t.Run(name, func(t *testing.T) {
			leakcheck.Check(t)
			active := newSide(t, nil, 4096)
			addr := randomName()
			l := must[*net.UnixListener](t)(net.ListenUnix("unixpacket", sockAddr(addr)))
			answered := answerWith(t, l, make)
			err := active.conn.Connect(t.Context(), active.qp, rdma.Addr{Fabric: Name, Name: addr}, someReads, nil)
			if !errors.Is(err, ring.ErrDoorbell) && !errors.Is(err, errHello) {
				t.Errorf("connect: %v", err)
			}
			if err := <-answered; err != nil {
				t.Error(err)
			}
			l.Close()
			active.a.Close()
		})
	}
}

// socketEnd returns one socket of a pair.
func socketEnd(tb testing.TB, kind int) int {
	tb.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		tb.Fatal(err)
	}
	_ = unix.Close(fds[1])
	return fds[0]
}

// answerWith accepts one connection as a raw peer, with a valid segment and the
// descriptors that doorbell returns.
func answerWith(tb testing.TB, l *net.UnixListener, doorbell func() []int) chan error {
	tb.Helper()
	done := make(chan error, 1)
	go func() {
		nc, err := l.AcceptUnix()
		if err != nil {
			done <- err
			return
		}
		defer nc.Close()
		_, _, _, err = new(foreign).receiveHello(nc, 0, acceptFDs)
		seg, own, err2 := ring.NewSegment(ring.MinSize)
		if err = errors.Join(err, err2); err != nil {
			done <- err
			return
		}
		defer own.Unmap()
		fds := append(seg[:], doorbell()...)
		defer ring.CloseAll(fds)
		done <- sendHello(nc, &hello{kind: helloAccept, ring: ring.MinSize}, fds...)
	}()
	return done
}
