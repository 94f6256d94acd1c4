package fileio

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"lwio/internal/client/barrier"
	"lwio/internal/client/base"
	"lwio/internal/client/rdmaconn"
	"lwio/internal/wire"
)

// onItsWay is a batch with two reads in flight on a path. Both are answered; one is among
// those that came back, the other is handed over only after the batch has looked there.
func onItsWay(t *testing.T) (*queue, *flight) {
	b := (&Client{}).newQueue(2)
	l := &flight{Place: rdmaconn.NewPlace(new(rdmaconn.Conn))}
	l.Conn.Life.Failed.Store(true)
	b.flights = []*flight{l}
	for i := range b.ops {
		o := &b.ops[i]
		o.busy, o.p, o.size, o.n, o.s, o.life, o.flight, o.ios = true, make([]byte, 1), 1, 1, new(rdmaconn.Request), 1, l, wire.IOStatusBlock{Information: 1}
		b.sent, l.sent = b.sent+1, l.sent+1
		l.Conn.Wanting.Add(1)
	}
	b.idle = b.idle[:0]
	b.Count.Add(2)
	b.Answered.Store(&b.ops[0].Ticket)
	handed := make(chan struct{})
	go func() {
		defer close(handed)
		for b.Answered.Load() != nil {
			runtime.Gosched()
		}
		b.Answered.Store(&b.ops[1].Ticket)
	}()
	t.Cleanup(func() { <-handed })
	return b, l
}

// An answer that was seen while its connection broke, and is not handed over to the batch
// yet, is waited for: nothing stays in flight on a connection that is gone.
func TestBatchLosesConnectionWhileAnswered(t *testing.T) {
	b, l := onItsWay(t)
	b.lose(l)
	if len(b.out) != 2 || b.sent != 0 || l.sent != 0 || l.Conn.Wanting.Load() != 0 {
		t.Errorf("%d are over, %d in flight, %d of them on the connection, where %d are wanted",
			len(b.out), b.sent, l.sent, l.Conn.Wanting.Load())
	}
	for _, d := range b.out {
		if d.Err != nil || d.N != 1 {
			t.Errorf("%+v", d)
		}
	}
}

// So it is when the batch is closed.
func TestBatchClosedWhileAnswered(t *testing.T) {
	b, l := onItsWay(t)
	b.Close()
	if b.sent != 0 || l.sent != 0 || l.Conn.Wanting.Load() != 0 {
		t.Errorf("%d in flight, %d of them on the connection, where %d are wanted", b.sent, l.sent, l.Conn.Wanting.Load())
	}
}

// An operation that cannot be sent does not keep the next one from being sent, though
// that is of a file that was not used before.
func TestBatchSendsAfterFailure(t *testing.T) { onEach(t, testBatchSendsAfterFailure) }

func testBatchSendsAfterFailure(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(100))
	share.put("g", pattern(100))
	c := newRawServer(t, on, share).connect(base.Config{})
	f, g := openOn(t, c, "f"), openOn(t, c, "g")
	buf := allocate(t, c, 100)
	buf.Doubt.Add(1)
	defer buf.Doubt.Add(-1)
	b := c.NewBatch(2)
	defer b.Close()
	if err := b.Read(f, buf.Bytes(), 0, 1); err != nil {
		t.Fatal(err)
	}
	if err := b.Read(g, make([]byte, 100), 0, 2); err != nil {
		t.Fatal(err)
	}
	if err := b.Submit(t.Context()); err != nil || len(b.q.out) != 1 || b.q.sent != 1 {
		t.Errorf("%d are over, %d sent: %v", len(b.q.out), b.q.sent, err)
	}
}

// An operation whose time is up has its error before its entry is the server's to free:
// the goroutine that finds the entry free, or in use by another, takes it for one that came back.
//
// Source: [OP-113]
func TestExpiredHasItsErrorFirst(t *testing.T) {
	x := &rdmaconn.Conn{Counts: new(base.Counts), Born: time.Now()}
	x.Table.Entries, x.Status.Polled = make([]rdmaconn.Request, 1), rdmaconn.NewRequestSet(1)
	x.Table.Free.Init(x.Table.Entries)
	b, files := (&Client{}).newQueue(1), new(barrier.Barrier)
	o, s := &b.ops[0], &x.Table.Entries[0]
	o.p, o.size, o.write, o.n, o.s, o.epoch = make([]byte, 1), 1, true, 1, s, files.Begin()
	s.Kind, s.Want, s.Op, s.Fid = rdmaconn.KindWrite, 1, &o.Ticket, 1
	s.Start(rdmaconn.RequestSettling, false)
	x.Credits.Mu.Lock() // in the way of CANCEL
	over := make(chan struct{})
	go func() {
		defer close(over)
		x.Expire(s)
	}()
	waitFor(t, func() bool { return s.State() == rdmaconn.RequestAbandoned })
	s.Set(rdmaconn.RequestSettling)
	var l rdmaconn.Delivery
	if err := x.Settle(s, rdmaconn.RequestAbandoned, wire.IOStatusBlock{Information: 1}, &l); err != nil {
		t.Error(err)
	}
	if !o.cameBack() || !errors.Is(o.failed, rdmaconn.ErrTimeout) || o.epoch != nil {
		t.Errorf("it came back %v, with %v", o.cameBack(), o.failed)
	}
	x.Credits.Mu.Unlock()
	<-over
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if b.Answered.Load() != &o.Ticket || b.Count.Load() != 1 || files.Wait(ended) != nil {
		t.Error("the batch has no answer, or the file waits for it")
	}
}
