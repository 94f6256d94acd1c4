package fileio

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
	"testing"

	"lwio/internal/client/base"
	"lwio/internal/client/paths"
	"lwio/internal/client/rdmaconn"
	"lwio/internal/wire"
)

// firstWait is a context that calls do when it is asked for its end for the first time: nothing
// that has it waits before that.
type firstWait struct {
	context.Context
	once *sync.Once
	do   func()
}

func (c firstWait) Done() <-chan struct{} {
	c.once.Do(c.do)
	return c.Context.Done()
}

// closedWaiting are the calls with a part of a Buffer that must not go on once it is closed while
// they wait.
var closedWaiting = map[string]func(ctx context.Context, f *File, p []byte) error{
	"read":        func(ctx context.Context, f *File, p []byte) error { return second(f.ReadAtContext(ctx, p, 0)) },
	"write":       func(ctx context.Context, f *File, p []byte) error { return second(f.WriteAtContext(ctx, p, 0)) },
	"batch read":  func(ctx context.Context, f *File, p []byte) error { return alone(ctx, f, p, (*Batch).Read) },
	"batch write": func(ctx context.Context, f *File, p []byte) error { return alone(ctx, f, p, (*Batch).Write) },
}

// alone does one operation of a batch.
func alone(ctx context.Context, f *File, p []byte, queue func(*Batch, *File, []byte, int64, uint64) error) error {
	b := f.c.NewBatch(1)
	defer b.Close()
	if err := queue(b, f, p, 0, 1); err != nil {
		return err
	}
	done, err := b.Wait(ctx, 1)
	if err != nil {
		return err
	}
	return done[0].Err
}

// occupied is the offset of the writes that are answered only when the test says so.
const occupied = 5000

// A call whose Buffer is closed while it waits, for the first time and for any cause, fails,
// and nothing is asked of the server: at that place there may be other memory by now.
//
// Source: [OP-113]
func TestBufferClosedWhileWaiting(t *testing.T) { onEach(t, testBufferClosedWhileWaiting) }

func testBufferClosedWhileWaiting(t *testing.T, on string) {
	for what, prepare := range map[string]func(t *testing.T, f *File, held <-chan func()) (goOn func()){
		"for the file to be known": func(*testing.T, *File, <-chan func()) func() { return func() {} },
		"for a credit":             takeTheCredit,
		"for SMB":                  loseRDMA,
	} {
		for name, do := range closedWaiting {
			for _, n := range []int{8, rdmaconn.CopyBuffer + 1, 9000} {
				share := newFakeShare()
				share.put("f", pattern(10_000))
				s := newRawServer(t, on, share)
				s.grant = 1
				held := make(chan func(), 1)
				var asked atomic.Int32
				s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
					if h.Opcode == wire.OpWrite && h.Offset == occupied {
						held <- func() { c.reply(h, h.Length, 0) }
						return true
					}
					if h.Opcode.IO() {
						asked.Add(1)
					}
					return false
				}
				c := s.connect(base.Config{ReconnectTimeout: -1})
				f := openOn(t, c, "f")
				b := allocate(t, c, 9000)
				goOn := prepare(t, f, held)
				ctx := firstWait{t.Context(), new(sync.Once), func() { b.Close(); goOn() }}
				var e *base.Error
				if err := do(ctx, f, b.Bytes()[:n]); !errors.As(err, &e) || !errors.Is(err, fs.ErrClosed) || base.IsLost(err) {
					t.Errorf("%s of %d bytes that waits %s: %v", name, n, what, err)
				}
				if overSMB := s.sess.counted(&s.sess.smbReads) + s.sess.counted(&s.sess.smbWrites); asked.Load() > 0 || overSMB > 0 {
					t.Errorf("%s of %d bytes that waits %s asks the server", name, n, what)
				}
				freed(t, b)
			}
		}
	}
}

// takeTheCredit takes the only credit of the file's connection until it is to go on.
func takeTheCredit(t *testing.T, f *File, held <-chan func()) (goOn func()) {
	end := make(chan error, 1)
	go func() { end <- second(f.WriteAt(make([]byte, 8), occupied)) }()
	answer := <-held
	t.Cleanup(func() {
		if err := <-end; err != nil {
			t.Error(err)
		}
	})
	return answer
}

// loseRDMA breaks the connection, of which there will be no other.
func loseRDMA(t *testing.T, f *File, _ <-chan func()) (goOn func()) {
	cn := f.c.Live()
	cn.Fail(errors.New("lost by the test"))
	if err := cn.TornDown(t.Context()); err != nil {
		t.Fatal(err)
	}
	return func() {}
}

// An operation that is queued, and not sent, fails when its Buffer is closed.
//
// Source: [OP-113]
func TestBufferClosedInTheQueue(t *testing.T) { onEach(t, testBufferClosedInTheQueue) }

func testBufferClosedInTheQueue(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(10_000))
	s := newRawServer(t, on, share)
	c := s.connect(base.Config{})
	f := openOn(t, c, "f")
	if _, err := f.ReadAt(make([]byte, 8), 0); err != nil { // it is known
		t.Fatal(err)
	}
	for name, queue := range map[string]func(*Batch, *File, []byte, int64, uint64) error{"read": (*Batch).Read, "write": (*Batch).Write} {
		for _, n := range []int{8, 9000} {
			b, batch := allocate(t, c, 9000), c.NewBatch(1)
			if err := queue(batch, f, b.Bytes()[:n], 0, 1); err != nil {
				t.Fatal(err)
			}
			b.Close()
			done, err := batch.Wait(t.Context(), 1)
			if err != nil || len(done) != 1 || !errors.Is(done[0].Err, fs.ErrClosed) || done[0].N != 0 {
				t.Errorf("%s of %d bytes: %v, %v", name, n, done, err)
			}
			batch.Close()
		}
	}
	if cn := <-s.accepted; cn.seen(wire.OpWrite) != nil || len(cn.seen(wire.OpRead)) != 1 || c.Live() == nil {
		t.Error("the server was asked, or the connection is gone")
	}
}

// A read or write over several connections begins no further part when its Buffer is closed.
//
// Source: [OP-109], [OP-113]
func TestBufferClosedBetweenStripes(t *testing.T) { onEach(t, testBufferClosedBetweenStripes) }

func testBufferClosedBetweenStripes(t *testing.T, on string) {
	const size = 8 * paths.MinStripe
	for _, name := range []string{"read", "write"} {
		share := newFakeShare()
		share.put("f", nil)
		s := newRawServer(t, on, share)
		var b *rdmaconn.Buffer
		s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
			if h.Opcode == wire.OpRead || h.Opcode == wire.OpWrite {
				b.Close()
				c.reply(h, h.Length, 0) // as if it were done
			}
			return h.Opcode == wire.OpRead || h.Opcode == wire.OpWrite
		}
		c := s.connect(base.Config{Connections: 2, Credits: 2})
		f := openOn(t, c, "f")
		b = allocate(t, c, size)
		if err := closedWaiting[name](t.Context(), f, b.Bytes()); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
		freed(t, b)
	}
}
