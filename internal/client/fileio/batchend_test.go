package fileio

import (
	"runtime"
	"testing"

	"lwio/internal/client/base"
)

// onItsWay is a batch with two reads in flight on a connection that is down. Both are answered. One
// is among those that came back; the other is handed over after the batch has looked there.
func onItsWay(t *testing.T) (*queue, *flight) {
	share := newFakeShare()
	share.put("f", pattern(100))
	c := newRawServer(t, "iwarp", share).connect(base.Config{})
	f, b := openOn(t, c, "f"), c.NewBatch(2)
	for tag := range uint64(2) {
		if err := b.Read(f, make([]byte, 1), 0, tag); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Submit(t.Context()); err != nil {
		t.Fatal(err)
	}
	q, l := b.q, b.q.flights[0]
	waitAnswered(t, q, 2)
	first, _ := q.Take()
	second := first.Next()
	q.Return(first)
	q.SleepAt(&l.Place, 1)
	l.Conn.Fail(errFakePipe)
	handed := make(chan struct{})
	go func() {
		defer close(handed)
		for q.Ready() { // until the batch has taken the first
			runtime.Gosched()
		}
		q.Return(second)
	}()
	t.Cleanup(func() { <-handed })
	return q, l
}

// An answer that was seen while its connection broke, and is not handed over to the batch
// yet, is waited for: nothing stays in flight on a connection that is gone.
func TestBatchLosesConnectionWhileAnswered(t *testing.T) {
	b, l := onItsWay(t)
	b.takeBackInFlight(l)
	if len(b.out) != 2 || b.sent != 0 || l.sent != 0 || l.Conn.Pending() != 0 {
		t.Errorf("%d are over, %d in flight, %d of them on the connection, where %d are wanted",
			len(b.out), b.sent, l.sent, l.Conn.Pending())
	}
	for _, d := range b.out {
		if d.Err != nil || d.N != 1 {
			t.Errorf("%+v", d)
		}
	}
}

// Close of a batch waits for an answer that was seen while its connection broke, too.
func TestBatchClosedWhileAnswered(t *testing.T) {
	b, l := onItsWay(t)
	b.Close()
	if b.sent != 0 || l.sent != 0 || l.Conn.Pending() != 0 {
		t.Errorf("%d in flight, %d of them on the connection, where %d are wanted", b.sent, l.sent, l.Conn.Pending())
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
	b := c.NewBatch(2)
	defer b.Close()
	if err := b.Read(f, buf.Bytes(), 0, 1); err != nil {
		t.Fatal(err)
	}
	if err := b.Read(g, make([]byte, 100), 0, 2); err != nil {
		t.Fatal(err)
	}
	buf.Close()
	if err := b.Submit(t.Context()); err != nil || len(b.q.out) != 1 || b.q.sent != 1 {
		t.Errorf("%d are over, %d sent: %v", len(b.q.out), b.q.sent, err)
	}
}
