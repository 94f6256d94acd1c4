package resident

import (
	"bytes"
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// hung is a disk that does not answer until it is freed.
type hung struct {
	asked chan struct{} // a token for each that waits
	freed chan struct{}
	once  sync.Once
	left  atomic.Int64 // reads that hang yet
}

// hang makes the next n reads of what a cache maps hang, until the end of the test at the latest.
func hang(t *testing.T, c *Cache, n int64) *hung {
	h := &hung{asked: make(chan struct{}), freed: make(chan struct{})}
	h.left.Store(n)
	c.populate = func(mem []byte) error {
		if h.left.Add(-1) >= 0 {
			select {
			case h.asked <- struct{}{}:
			case <-h.freed:
			}
			<-h.freed
		}
		return populate(mem)
	}
	t.Cleanup(h.free)
	return h
}

func (h *hung) free() { h.once.Do(func() { close(h.freed) }) }

// ofDevice opens a view of f, as if it were of that device.
func ofDevice(t *testing.T, c *Cache, device uint64, f *os.File) *View {
	v := c.Open(Key{Device: device, Number: 1}, f)
	t.Cleanup(v.Close)
	return &v
}

// A disk that hangs holds up nothing of another.
func TestHungDevice(t *testing.T) {
	dir := diskDir(t)
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, Config{Budget: 1 << 30, Threshold: 1})
		f := patternFile(t, dir, page)
		h := hang(t, c, maxDevices-1)
		for device := range uint64(maxDevices - 1) {
			ofDevice(t, c, device, f).Bytes(0, 1)
			<-h.asked
		}
		v := ofDevice(t, c, maxDevices, f)
		v.Bytes(5, 10)
		synctest.Wait()
		if s := c.Stats(); s.Promotions != 1 || !bytes.Equal(v.Bytes(5, 10), pattern(make([]byte, 10), 5)) {
			t.Errorf("%+v", s)
		}
		for range IdleSweeps + 1 { // nor does it hold up the sweeps
			c.sweep()
		}
		if s := c.Stats(); s.Demotions != 1 {
			t.Errorf("%+v", s)
		}
		h.free()
		synctest.Wait()
		if s := c.Stats(); s.Promotions != maxDevices {
			t.Errorf("the disks answer: %+v", s)
		}
	})
}

// If many hang, there are no goroutines for more, and Close waits for them no longer than it may.
func TestHungDevices(t *testing.T) {
	dir := diskDir(t)
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, Config{Budget: 1 << 30, Threshold: 1})
		f := patternFile(t, dir, page)
		h := hang(t, c, maxDevices)
		for device := range uint64(maxDevices) {
			ofDevice(t, c, device, f).Bytes(0, 1)
			<-h.asked
		}
		v := ofDevice(t, c, maxDevices, f)
		if c.propose(v, 0) || len(c.queues) != maxDevices {
			t.Error("one more is at work")
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := c.Close(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Close while a disk is waited for: %v", err)
		}
		h.free()
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// The queue is bounded, and Close sees to what is in it.
func TestQueue(t *testing.T) {
	dir := diskDir(t)
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, Config{Budget: 1 << 30, Threshold: 1})
		v := view(t, c, patternFile(t, dir, page))
		h := hang(t, c, 1)
		v.Bytes(0, 1)
		<-h.asked
		for i := range 2 * maxQueue {
			v.Bytes(int64(i)*ChunkSize, 1)
		}
		if n := len(c.queues[0]); n != maxQueue {
			t.Errorf("%d in the queue", n)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := c.Close(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Close while a disk is waited for: %v", err)
		}
		v.Bytes(0, 1)
		if promoteNow(t, v, 0) {
			t.Error("what was not begun with is promoted after Close")
		}
		h.free()
		if err := c.Close(context.Background()); err != nil || len(c.queues) != 0 || c.Stats().Promotions > 1 {
			t.Errorf("%d left, %v", len(c.queues), err)
		}
	})
}
