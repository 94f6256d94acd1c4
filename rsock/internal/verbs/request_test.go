package verbs

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"lwio/rdma"
	"lwio/rdma/rdmatest/fault"
)

// TestCompleteIsCalledOnce posts requests with and without Complete: Poll calls the function
// once; the test polls for requests without the function.
//
// Source: [WSD §5.6]
func TestCompleteIsCalledOnce(t *testing.T) {
	onAll(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, nil, 4096)
		ctx, stop := context.WithCancel(t.Context())
		var recv, echo [4]Overlapped
		notified := 0
		for i := range recv {
			recv[i].Complete = func(o *Overlapped) {
				if _, err := b.GetResult(o); err != nil {
					return // the end of the test
				}
				notified++
				if err := errors.Join(b.Recv(o, b.part(0, 8), Defer), b.Send(&echo[i], b.part(0, 8), 0)); err != nil {
					t.Error(err)
				}
			}
			if err := b.Recv(&recv[i], b.part(0, 8), 0); err != nil {
				t.Fatal(err)
			}
		}
		ended := make(chan error, 1)
		go func() { ended <- driveUntil(ctx, b.Socket) }()
		const n = 1000
		for range n {
			var send, back Overlapped
			if err := a.Recv(&back, a.part(8, 8), 0); err != nil {
				t.Fatal(err)
			}
			a.ok("send", &send, a.Send(&send, a.part(0, 8), 0))
			a.ok("echo", &back, nil)
		}
		stop()
		fails(t, "drive", <-ended, OperationAborted)
		if notified != n {
			t.Errorf("notified %d times of %d messages", notified, n)
		}
	})
}

// driveUntil polls and sleeps until ctx ends or the socket fails.
func driveUntil(ctx context.Context, s *Socket) error {
	for {
		n, err := s.Poll()
		if err == nil && n == 0 {
			err = s.Wait(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// TestDeferredRequestsArePostedInOrder defers requests: the next request without Defer, or
// Commit, posts them.
func TestDeferredRequestsArePostedInOrder(t *testing.T) {
	onAll(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, nil, 4096)
		copy(a.buf, "onetwosix")
		var recv, send [3]Overlapped
		for i := range recv {
			if err := b.Recv(&recv[i], b.part(3*i, 3), Defer); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(a.Send(&send[0], a.part(0, 3), Defer), a.Send(&send[1], a.part(3, 3), Defer)); err != nil {
			t.Fatal(err)
		}
		if _, err := a.GetResult(&send[0]); !errors.Is(err, IOIncomplete) {
			t.Errorf("deferred: %v", err)
		}
		for i, err := range []error{nil, nil, a.Send(&send[2], a.part(6, 3), 0)} {
			a.ok("send", &send[i], err)
			b.ok("receive", &recv[i], nil)
		}
		if string(b.buf[:9]) != "onetwosix" {
			t.Errorf("received %q", b.buf[:9])
		}
		if err := errors.Join(a.Commit(), b.Commit()); err != nil {
			t.Error("commit of nothing:", err)
		}
	})
}

// TestRefusedPostEndsWithError posts requests that the provider refuses: a single request
// fails at once, deferred requests end in the next Poll, and no later request overtakes
// them.
func TestRefusedPostEndsWithError(t *testing.T) {
	onAll(t, func(t *testing.T, f fabric) {
		var refuse atomic.Bool
		p := fault.Wrap(f.make(), &fault.Config{Fault: func(fault.Attempt) fault.Action {
			if refuse.Load() {
				return fault.Fail(rdma.StatusNoMoreEntries)
			}
			return fault.Pass()
		}})
		a, b := pairOn(t, f, service(t, p, nil), service(t, f.make(), nil), 4096)
		var recv, send Overlapped
		var two [2]Overlapped
		notified := 0
		two[1].Complete = func(*Overlapped) { notified++ }
		if err := b.Recv(&recv, b.part(0, 8), 0); err != nil {
			t.Fatal(err)
		}
		refuse.Store(true)
		fails(t, "send", a.Send(&send, a.part(0, 8), 0), ENOBUFS)
		if send.isDone() {
			t.Error("a request that was not queued has ended")
		}
		if err := errors.Join(a.Send(&two[0], a.part(0, 1), Defer), a.Send(&two[1], a.part(0, 2), Defer)); err != nil {
			t.Fatal(err)
		}
		fails(t, "commit", a.Commit(), ENOBUFS)
		if err := a.Wait(t.Context()); err != nil {
			t.Error("wait:", err)
		}
		if n, err := a.Poll(); n != 2 || err != nil {
			t.Errorf("poll: %d, %v", n, err)
		}
		for i := range two {
			_, err := a.GetResult(&two[i])
			fails(t, "deferred", err, ENOBUFS)
		}
		if notified != 1 {
			t.Errorf("notified %d times", notified)
		}
		refuse.Store(false)
		a.ok("send", &send, a.Send(&send, a.part(0, 8), 0))
		if n := b.ok("receive", &recv, nil); n != 8 {
			t.Errorf("received the message of %d bytes", n)
		}
		if err := a.DeregisterMemory(a.h); err != nil {
			t.Error("the memory is still in use:", err)
		}
	})
}

// TestQueueDepthIsEnforced fills the queues of a socket; each request is pending until Poll
// returns it.
func TestQueueDepthIsEnforced(t *testing.T) {
	onAll(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, &Config{ReceiveDepth: 2, SendDepth: 3}, 4096)
		if o := a.Options(); o.ReceiveDepth != 2 || o.SendDepth != 3 {
			t.Errorf("options %+v", o)
		}
		var recv, send [4]Overlapped
		desc := b.expose(make([]byte, 8), MemWrite)
		if err := errors.Join(b.Recv(&recv[0], nil, 0), b.Recv(&recv[1], nil, 0)); err != nil {
			t.Fatal(err)
		}
		fails(t, "third receive", b.Recv(&recv[2], nil, 0), ENOBUFS)
		for i := range 3 {
			if err := a.RdmaWrite(&send[i], a.part(0, 8), desc, 0, 0); err != nil {
				t.Fatal(err)
			}
		}
		fails(t, "fourth write", a.RdmaWrite(&send[3], a.part(0, 8), desc, 0, 0), ENOBUFS)
		for i := range 3 {
			a.ok("write", &send[i], nil)
		}
		a.ok("write", &send[3], a.RdmaWrite(&send[3], a.part(0, 8), desc, 0, 0))
	})
}

// Source: [WSD §2.4]
func TestOptionsFollowAdapterAndConfig(t *testing.T) {
	for _, f := range fabrics {
		v := service(t, f.make(), nil)
		o := v.Options()
		if o.MaxMsgSize < 4096 || o.MaxRdmaSize < 1<<20 || o.RdmaThresholdSize != v.Info().LargeRequestThreshold ||
			o.MaxBuffers != MaxBuffers || o.MaxReadBuffers != MaxBuffers || o.ReceiveDepth != DefaultDepth || o.SendDepth != DefaultDepth {
			t.Errorf("%s: %+v", f.name, o)
		}
		o = service(t, f.make(), &Config{ReceiveDepth: -1, SendDepth: 1 << 30, MaxRdmaSize: 77}).Options()
		if o.ReceiveDepth != 1 || o.SendDepth != v.Info().MaxInitiatorQueueDepth || o.MaxRdmaSize != 77 {
			t.Errorf("%s: %+v", f.name, o)
		}
	}
}

// TestNoAllocations sends, receives and writes without an allocation.
func TestNoAllocations(t *testing.T) {
	onAll(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, nil, 4096)
		desc := b.expose(make([]byte, 4096), MemReadWrite)
		var recv, send, write Overlapped
		bufs, there := a.part(0, 64), b.part(0, 64)
		turn := func() {
			err := errors.Join(b.Recv(&recv, there, 0), a.RdmaWrite(&write, bufs, desc, 0, Defer), a.Send(&send, bufs, 0))
			for err == nil && !(recv.isDone() && send.isDone() && write.isDone()) {
				_, err1 := a.Poll()
				_, err2 := b.Poll()
				err = errors.Join(err1, err2)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for range 100 {
			turn()
		}
		if n := testing.AllocsPerRun(1000, turn); n >= 1 && !raceEnabled {
			t.Errorf("%v allocations", n)
		}
	})
}
