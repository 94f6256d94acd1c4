package lwio

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"lwio/internal/epochs"
	"lwio/internal/wire"
)

// onItsWay is a batch with two reads in flight on a leg. Both are answered; one is among
// those that came back, the other is handed over only after the batch has looked there.
func onItsWay(t *testing.T) (*queue, *flight) {
	b := (&Client{}).newQueue(2)
	l := &flight{conn: new(conn)}
	l.conn.failed.Store(true)
	b.flights = []*flight{l}
	for i := range b.ops {
		o := &b.ops[i]
		*o = operation{q: b, busy: true, arguments: arguments{p: make([]byte, 1), size: 1}, n: 1, s: new(slot), life: 1, flight: l, ios: wire.IOStatusBlock{Information: 1}}
		b.sent, l.sent = b.sent+1, l.sent+1
		l.conn.wanting.Add(1)
	}
	b.idle = b.idle[:0]
	b.count.Add(2)
	b.answered.Store(&b.ops[0])
	handed := make(chan struct{})
	go func() {
		defer close(handed)
		for b.answered.Load() != nil {
			runtime.Gosched()
		}
		b.answered.Store(&b.ops[1])
	}()
	t.Cleanup(func() { <-handed })
	return b, l
}

// An answer that was seen while its connection broke, and is not handed over to the batch
// yet, is waited for: nothing stays in flight on a connection that is gone.
func TestBatchLosesConnectionWhileAnswered(t *testing.T) {
	b, l := onItsWay(t)
	b.lose(l)
	if len(b.out) != 2 || b.sent != 0 || l.sent != 0 || l.conn.wanting.Load() != 0 {
		t.Errorf("%d are over, %d in flight, %d of them on the connection, where %d are wanted",
			len(b.out), b.sent, l.sent, l.conn.wanting.Load())
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
	b.close()
	if b.sent != 0 || l.sent != 0 || l.conn.wanting.Load() != 0 {
		t.Errorf("%d in flight, %d of them on the connection, where %d are wanted", b.sent, l.sent, l.conn.wanting.Load())
	}
}

// An operation that cannot be sent does not keep the next one from being sent, though
// that is of a file that was not used before.
func TestBatchSendsAfterFailure(t *testing.T) { onEach(t, testBatchSendsAfterFailure) }

func testBatchSendsAfterFailure(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(100))
	share.put("g", pattern(100))
	c := newRawServer(t, on, share).connect(Config{})
	f, g := openOn(t, c, "f"), openOn(t, c, "g")
	buf := allocate(t, c, 100)
	buf.doubt.Add(1)
	defer buf.doubt.Add(-1)
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

// An operation whose time is up has its error before its slot is the server's to free:
// whoever finds the slot free, or in use by another, takes it for one that came back.
//
// Source: [OP-113]
func TestExpiredHasItsErrorFirst(t *testing.T) {
	x := &conn{counts: new(counts), born: time.Now(), slots: make([]slot, 1), polled: newSlotSet(1)}
	x.free.init(x.slots)
	b, files := (&Client{}).newQueue(1), new(epochs.Epochs)
	o, s := &b.ops[0], &x.slots[0]
	*o = operation{q: b, arguments: arguments{p: make([]byte, 1), size: 1, write: true}, n: 1, s: s, epoch: files.Begin()}
	s.kind, s.want, s.op, s.fid = kindWrite, 1, o, 1
	s.start(slotSettling, false)
	x.credits.mu.Lock() // in the way of CANCEL
	over := make(chan struct{})
	go func() {
		defer close(over)
		o.expired(x, s)
	}()
	waitFor(t, func() bool { return s.state() == slotAbandoned })
	s.set(slotSettling)
	var l landing
	if err := x.settle(s, slotAbandoned, wire.IOStatusBlock{Information: 1}, &l); err != nil {
		t.Error(err)
	}
	if !o.cameBack() || !errors.Is(o.failed, errTimeout) || o.epoch != nil {
		t.Errorf("it came back %v, with %v", o.cameBack(), o.failed)
	}
	x.credits.mu.Unlock()
	<-over
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if b.answered.Load() != o || b.count.Load() != 1 || files.Wait(ended) != nil {
		t.Error("the batch was not told, or the file waits for it")
	}
}
