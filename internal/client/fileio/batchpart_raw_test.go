package fileio

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
)

// partSize is the length of the data of a WRITE in these tests, in bytes.
const partSize = 4096

// heldWrites are the WRITEs that a server was sent and has not answered.
type heldWrites struct {
	mu      sync.Mutex
	answers map[uint64]func(information, status uint32) // by offset
	longest int
}

// holdWrites keeps a server of partSize from answering writes.
func holdWrites(s *rawServer) *heldWrites {
	s.recvSize = partSize
	w := &heldWrites{answers: make(map[uint64]func(information, status uint32))}
	s.handle = func(c *rawConn, h wire.Header, body []byte) bool {
		if h.Opcode != wire.OpWrite {
			return false
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.longest = max(w.longest, len(body))
		w.answers[h.Offset] = func(information, status uint32) {
			if information > 0 {
				if _, err := c.file(h.Fid).WriteAt(body[:information], int64(h.Offset)); err != nil {
					s.t.Error(err)
				}
			}
			c.reply(h, information, status)
		}
		return true
	}
	return w
}

// serveHeldWrites serves an empty file "f" from a server that grants so many credits and
// answers no write, and connects to it.
func serveHeldWrites(t *testing.T, on string, grant uint16) (*rawServer, *heldWrites, *Client) {
	t.Helper()
	share := newFakeShare()
	share.put("f", nil)
	s := newRawServer(t, on, share)
	s.grant = grant
	w := holdWrites(s)
	return s, w, s.connect(base.Config{Timeout: time.Hour})
}

// writeInParts has a Batch write to a file in so many parts, to a server that grants so many
// credits and answers nothing.
func writeInParts(t *testing.T, on string, grant uint16, parts int) (*rawServer, *heldWrites, *File, *Batch) {
	t.Helper()
	s, w, c := serveHeldWrites(t, on, grant)
	f, b := openOn(t, c, "f"), c.NewBatch(1)
	if err := errors.Join(b.Write(f, pattern(parts*partSize), 0, 0), b.Submit(t.Context())); err != nil {
		t.Fatal(err)
	}
	return s, w, f, b
}

// has tells whether the one at an offset is among them.
func (w *heldWrites) has(off uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answers[off] != nil
}

// last is the offset of the last of them in the file.
func (w *heldWrites) last() (off uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for at := range w.answers {
		off = max(off, at)
	}
	return off
}

// held is how many there are.
func (w *heldWrites) held() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.answers)
}

// answer answers the one at an offset.
func (w *heldWrites) answer(off uint64, information int, status ntstatus.Status) {
	w.mu.Lock()
	do := w.answers[off]
	delete(w.answers, off)
	w.mu.Unlock()
	do(uint32(information), uint32(status))
}

// A write of several requests has all of them in flight at once, and is over when the last
// is answered, in any order; so also if there are fewer credits than requests.
//
// Source: [LWIO §Write], [OP-61b], [OP-64]
func TestBatchPartsAreInFlightTogether(t *testing.T) { onEach(t, testPartsTogether) }

func testPartsTogether(t *testing.T, on string) {
	const parts, rest = 9, 100
	sizes := map[uint64]int{1 << 20: 1, parts * partSize: rest} // of those that are not full
	for _, grant := range []uint16{16, 4} {
		for _, inBuffer := range []bool{false, true} {
			s, w, c := serveHeldWrites(t, on, grant)
			f, b := openOn(t, c, "f"), c.NewBatch(2)
			want := pattern(parts*partSize + rest)
			p := want
			if inBuffer {
				p = allocate(t, c, len(want)).Bytes()
				copy(p, want)
			}
			if err := errors.Join(b.Write(f, p, 0, 7), b.Write(f, []byte("x"), 1<<20, 8), b.Submit(t.Context())); err != nil {
				t.Fatal(err)
			}
			waitFor(t, func() bool { return w.held() == min(parts+2, int(grant)) })
			var done []Completion
			over := make(chan error, 1)
			go func() {
				for len(done) < 2 {
					list, err := b.Wait(t.Context(), 1)
					if done = append(done, list...); err != nil {
						over <- err
						return
					}
				}
				over <- nil
			}()
			for range parts + 2 {
				waitFor(t, func() bool { return w.held() > 0 })
				last := w.last()
				w.answer(last, cmp.Or(sizes[last], partSize), 0)
			}
			if err := <-over; err != nil {
				t.Fatal(err)
			}
			slices.SortFunc(done, func(x, y Completion) int { return int(x.Tag) - int(y.Tag) })
			if want := []Completion{{Tag: 7, N: len(want)}, {Tag: 8, N: 1}}; !slices.Equal(done, want) {
				t.Errorf("%+v, not %+v", done, want)
			}
			if got := s.share.files["f"].content(); !bytes.Equal(got[:len(want)], want) || w.longest != partSize {
				t.Errorf("other bytes, in requests of up to %d", w.longest)
			}
			if st := c.Stats(); st.RDMA.Writes != 2 || st.RDMA.WrittenBytes != uint64(len(want)+1) || st.InFlight != 0 {
				t.Errorf("%+v", st)
			}
			if err := errors.Join(b.Close(), f.Close()); err != nil {
				t.Error(err)
			}
		}
	}
}

// partEnd is the end of a part.
type partEnd struct {
	part, n int
	status  ntstatus.Status
}

// A write reports the bytes before its first failed part, and the error of that part. The outcome of
// the rest is uncertain if the outcome of any part is uncertain.
//
// Source: [OP-61b], [OP-92f], [OP-112]
func TestBatchPartFails(t *testing.T) { onEach(t, testPartFails) }

func testPartFails(t *testing.T, on string) {
	const parts = 6
	for name, test := range map[string]struct {
		grant     uint16
		ends      []partEnd // of some, in the order of the answers; the others are well, after that
		cut       bool      // the connection, then
		n         int
		err       error
		uncertain bool
	}{
		"one":              {16, []partEnd{{2, 0, ntstatus.DiskFull}}, false, 2 * partSize, syscall.ENOSPC, false},
		"the first":        {16, []partEnd{{0, 0, ntstatus.AccessDenied}}, false, 0, fs.ErrPermission, false},
		"the last":         {16, []partEnd{{5, 0, ntstatus.AccessDenied}}, false, 5 * partSize, fs.ErrPermission, false},
		"a short one":      {16, []partEnd{{3, 10, 0}}, false, 3*partSize + 10, io.ErrShortWrite, false},
		"two":              {16, []partEnd{{1, 0, ntstatus.AccessDenied}, {4, 7, 0}}, false, partSize, fs.ErrPermission, false},
		"two, backwards":   {16, []partEnd{{4, 7, 0}, {1, 0, ntstatus.AccessDenied}}, false, partSize, fs.ErrPermission, false},
		"before all sent":  {2, []partEnd{{0, 5, 0}}, false, 5, io.ErrShortWrite, false},
		"second, before":   {3, []partEnd{{1, 0, ntstatus.AccessDenied}}, false, partSize, fs.ErrPermission, false},
		"and a connection": {16, []partEnd{{0, partSize, 0}, {1, 0, ntstatus.AccessDenied}}, true, partSize, fs.ErrPermission, true},
		"the connection":   {16, []partEnd{{0, partSize, 0}, {2, partSize, 0}}, true, partSize, base.ErrUncertain, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, w, _, b := writeInParts(t, on, test.grant, parts)
			sent := min(parts, int(test.grant))
			waitFor(t, func() bool { return w.held() == sent })
			for i, e := range test.ends {
				w.answer(uint64(e.part*partSize), e.n, e.status)
				waitAnswered(t, b.q, i+1)
			}
			if test.cut {
				(<-s.accepted).cut()
			} else {
				for part := range parts {
					if off := uint64(part * partSize); w.has(off) {
						w.answer(off, partSize, 0)
					}
				}
			}
			list, err := b.Wait(t.Context(), 1)
			if err != nil || len(list) != 1 {
				t.Fatal(list, err)
			}
			if d := list[0]; d.N != test.n || !errors.Is(d.Err, test.err) || errors.Is(d.Err, base.ErrUncertain) != test.uncertain {
				t.Errorf("%d, %v", d.N, d.Err)
			}
			if w.held() > 0 && !test.cut {
				t.Error("more was sent after a part had failed")
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// askedContext is a context that tells when a goroutine first waits for its end.
type askedContext struct {
	context.Context
	once  sync.Once
	asked chan struct{}
}

func (c *askedContext) Done() <-chan struct{} {
	c.once.Do(func() { close(c.asked) })
	return c.Context.Done()
}

// A Sync that begins when parts of a write are in flight waits for all of its parts, also for
// those that are sent after that, and if the one that was sent last is answered first.
//
// Source: [OP-115]
func TestPartsAreOfOneEpoch(t *testing.T) { onEach(t, testPartsOfOneEpoch) }

func testPartsOfOneEpoch(t *testing.T, on string) {
	_, w, f, b := writeInParts(t, on, 2, 4)
	waitFor(t, func() bool { return w.has(0) && w.has(partSize) })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	during, synced, over := &askedContext{Context: ctx, asked: make(chan struct{})}, make(chan error, 1), make(chan error, 1)
	go func() { synced <- f.writes.Wait(during) }()
	<-during.asked // for the writes that have begun by now
	go func() {
		_, err := b.Wait(t.Context(), 1)
		over <- err
	}()
	for _, part := range []uint64{0, 1} {
		w.answer(part*partSize, partSize, 0)
		waitFor(t, func() bool { return w.has((part + 2) * partSize) })
	}
	w.answer(3*partSize, partSize, 0)
	waitFor(t, func() bool { return freeCredits(f.c.Live()) == 1 })
	cancel()
	if err := <-synced; !errors.Is(err, context.Canceled) {
		t.Errorf("the write counts as over while a part is in flight: %v", err)
	}
	w.answer(2*partSize, partSize, 0)
	if err := errors.Join(<-over, f.writes.Wait(t.Context()), b.Close()); err != nil {
		t.Error(err)
	}
}

// A write reports the bytes before its first part that is not answered in time as certain. A late
// answer gives back the credits and changes nothing.
//
// Source: [OP-110], [OP-112], [OP-113]
func TestBatchPartsExpire(t *testing.T) { onEach(t, testPartsExpire) }

func testPartsExpire(t *testing.T, on string) {
	const parts = 4
	_, w, f, b := writeInParts(t, on, 16, parts)
	c := f.c
	waitFor(t, func() bool { return w.held() == parts })
	for _, part := range []uint64{0, 2} {
		w.answer(part*partSize, partSize, 0)
	}
	waitAnswered(t, b.q, 2)
	cn := c.Live()
	passTimeout(cn)
	list, err := b.Wait(t.Context(), 1)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if d := list[0]; d.N != partSize || !errors.Is(d.Err, base.ErrUncertain) || !errors.Is(d.Err, os.ErrDeadlineExceeded) {
		t.Errorf("%d, %v", d.N, d.Err)
	}
	for _, part := range []uint64{1, 3} {
		w.answer(part*partSize, partSize, 0)
	}
	waitFor(t, func() bool { return c.Stats().InFlight == 0 && cn.UnansweredWrites() == 0 })
	if cn.IsDown() {
		t.Error(cn.Err())
	}
	if err := errors.Join(b.Close(), f.Close()); err != nil {
		t.Error(err)
	}
}
