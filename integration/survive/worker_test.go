package survive

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"lwio"
	"lwio/integration/internal/ledger"
	"lwio/integration/internal/supervise"
)

// The file of a worker: blocks that change, and before them blocks that the worker locks to have writes
// refused.
const (
	lockedBlocks = 8
	fileBlocks   = 512
	maxBlocks    = 160 // of one write: more than a message of the default size
	fileSize     = fileBlocks * ledger.BlockSize
)

var lockedRange = lwio.Range{Len: lockedBlocks * ledger.BlockSize}

// worker is a client that writes a file of its own, and reads and syncs it.
type worker struct {
	srv       *supervise.Server
	transport string
	name      string // of the file
	flags     int    // of OpenFile
	ledger    *ledger.Ledger
	lossless  bool // no call may fail, but some writes over SMB may be uncertain
	r         *rand.Rand
	took      *durations

	wires
	c        *lwio.Client         // nil without a connection
	f, guard *lwio.File           // guard has the locks
	ready    time.Time            // when the server began that the client has connected to
	seen     map[string]time.Time // by kind of call, when the server began that has answered last

	acknowledged, uncertain, refused, sessions, replayed atomic.Uint64
}

// store are the files of a server, as a local program sees them.
type store interface {
	put(name string, content []byte) error
	get(name string) ([]byte, error)
}

// directory is a store in a directory.
type directory string

func (d directory) put(name string, content []byte) error {
	return os.WriteFile(filepath.Join(string(d), name), content, 0o600)
}

func (d directory) get(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(string(d), name))
}

// newWorker makes the file of a worker. Each second one writes through.
func newWorker(srv *supervise.Server, files store, number int, transport string, took *durations) (*worker, error) {
	w := &worker{
		srv: srv, transport: transport, name: fmt.Sprint("ledger", number), flags: os.O_RDWR,
		ledger: ledger.New(uint32(number), 0, fileBlocks), r: rand.New(rand.NewPCG(uint64(number), 1)), took: took, seen: make(map[string]time.Time),
	}
	if number%2 == 1 {
		w.flags |= os.O_SYNC
	}
	content := make([]byte, fileSize)
	ledger.Fill(content, w.ledger.File, 0, 0)
	return w, files.put(w.name, content)
}

func (w *worker) String() string {
	return fmt.Sprintf("%s over %s: %d writes acknowledged, %d uncertain, %d refused, %d sent again, %d sessions", w.name, w.transport,
		w.acknowledged.Load(), w.uncertain.Load(), w.refused.Load(), w.replayed.Load(), w.sessions.Load())
}

// run works until stop ends. An error is a wrong byte, a false answer, or a failure of a lossless worker.
func (w *worker) run(stop context.Context) error {
	for stop.Err() == nil {
		if w.c == nil {
			if err := w.connect(stop); err != nil {
				return fmt.Errorf("%v: %w", w, err)
			}
			continue
		}
		var err error
		switch k := w.r.IntN(100); {
		case k < 30:
			err = w.read()
		case k < 80:
			err = w.write(w.f, lockedBlocks+w.r.IntN(fileBlocks-lockedBlocks))
		case k < 90:
			err = w.sync()
		default:
			err = w.beRefused()
		}
		if err := w.after(err); err != nil {
			return fmt.Errorf("%v: %w", w, err)
		}
	}
	return w.leave()
}

// wrongError is an answer that no failure excuses.
type wrongError struct{ error }

// after decides about the error of an operation: a failed connection is given up, and wrong data ends the
// worker. After an uncertain write a lossless worker goes on.
func (w *worker) after(err error) error {
	if w.lossless && w.transport == lwio.TransportSMB && errors.Is(err, lwio.ErrUncertain) {
		err = w.sync()
	}
	if err == nil || w.lossless || errors.As(err, new(wrongError)) {
		return err
	}
	_ = w.leave() // the server of this session may be dead
	return nil
}

// leave closes the client.
func (w *worker) leave() error {
	c := w.c
	w.c = nil
	if c == nil {
		return nil
	}
	w.replayed.Add(c.Stats().ReplayedWrites)
	if err := c.Close(); err != nil && w.lossless {
		return err
	}
	return nil
}

// connect tries to connect until it succeeds or stop ends. Then it reads, writes and locks.
func (w *worker) connect(stop context.Context) error {
	ready := w.srv.Times().Ready
	c, err := lwio.Dial(stop, w.srv.URL(""), w.config(w.transport))
	if err == nil {
		if now := w.srv.Times().Ready; now.Equal(ready) && !now.Equal(w.ready) {
			w.ledger.Settle() // the process of the earlier sessions is dead
		}
		w.c, w.ready = c, ready
		w.sessions.Add(1)
		err = w.open()
	}
	if err != nil {
		if err := w.after(err); err != nil && stop.Err() == nil {
			return err
		}
		select {
		case <-stop.Done():
		case <-time.After(retry):
		}
		return nil
	}
	for _, do := range []func() error{w.read, func() error { return w.write(w.f, lockedBlocks) }, w.beRefused} {
		if err := do(); err != nil {
			return w.after(err)
		}
	}
	return nil
}

// open opens the file twice.
func (w *worker) open() (err error) {
	if w.f, err = w.c.OpenFile(context.Background(), w.name, w.flags, 0); err == nil {
		w.guard, err = w.c.OpenFile(context.Background(), w.name, w.flags, 0)
	}
	return err
}

// answered records the time of the first answer after a kill.
func (w *worker) answered(what string) {
	at := w.srv.Times()
	if at.Killed.IsZero() || at.Ready.IsZero() || w.seen[what].Equal(at.Ready) {
		return
	}
	w.seen[what] = at.Ready
	w.took.add("first "+what+" after the kill", time.Since(at.Killed))
	w.took.add("first "+what+" after the server listens", time.Since(at.Ready))
}

// read reads some blocks and compares them.
func (w *worker) read() error {
	at := w.r.IntN(fileBlocks)
	n := 1 + w.r.IntN(min(fileBlocks-at, maxBlocks))
	p := make([]byte, n*ledger.BlockSize)
	v := w.ledger.View(at, n)
	if _, err := w.f.ReadAt(p, int64(at)*ledger.BlockSize); err != nil {
		return err
	}
	w.answered("read")
	return wrong(w.ledger.Check(v, p, at))
}

// wrong marks an error that no failure excuses.
func wrong(err error) error {
	if err == nil {
		return nil
	}
	return wrongError{err}
}

// write writes some blocks from block at on and records the outcome.
func (w *worker) write(f *lwio.File, at int) error {
	n := 1
	if w.r.IntN(2) == 0 {
		n += w.r.IntN(min(fileBlocks-at, maxBlocks))
	}
	return w.writeBlocks(f, at, n)
}

func (w *worker) writeBlocks(f *lwio.File, at, n int) error {
	p := make([]byte, n*ledger.BlockSize)
	write := w.ledger.Begin(at, n)
	ledger.Fill(p, w.ledger.File, at, write)
	done, err := f.WriteAt(p, int64(at)*ledger.BlockSize)
	late := errors.Is(err, lwio.ErrUncertain) || errors.Is(err, os.ErrDeadlineExceeded)
	w.ledger.End(write, at, n, done/ledger.BlockSize, late)
	switch {
	case err == nil:
		w.acknowledged.Add(1)
		w.answered("write")
	case late:
		w.uncertain.Add(1)
	default:
		w.refused.Add(1)
	}
	return err
}

// sync syncs the file. Then no uncertain write of these opens can still be done.
func (w *worker) sync() error {
	for _, f := range []*lwio.File{w.f, w.guard} {
		if err := f.Sync(context.Background()); err != nil {
			return err
		}
	}
	w.ledger.Synced()
	if w.sessions.Load() == 1 {
		w.ledger.Settle()
	}
	return nil
}

// beRefused writes to a range that another open has locked. Success is wrong, because the lock lasts as
// long as the session of the write.
func (w *worker) beRefused() error {
	ctx := context.Background()
	if err := w.guard.TryLock(ctx, lockedRange, lwio.LockExclusive); err != nil {
		return err
	}
	w.answered("lock")
	err := w.writeBlocks(w.f, 0, 1+w.r.IntN(lockedBlocks))
	if err == nil {
		return wrong(errors.New("a write to a locked range succeeds"))
	}
	if errors.Is(err, lwio.ErrLocked) {
		err = w.writeBlocks(w.guard, 0, lockedBlocks)
	}
	if err != nil && !(w.lossless && errors.Is(err, lwio.ErrUncertain)) {
		return err
	}
	return errors.Join(err, w.guard.Unlock(ctx, lockedRange))
}

// team are workers that work at the same time.
type team struct {
	members []*worker
	stop    context.CancelFunc // nil before start and after end
	over    sync.WaitGroup
	failed  chan error
}

// start has the workers work until end.
func (t *team) start() {
	var stop context.Context
	stop, t.stop = context.WithCancel(context.Background())
	t.failed = make(chan error, len(t.members))
	for _, w := range t.members {
		t.over.Go(func() {
			if err := w.run(stop); err != nil {
				t.failed <- err
			}
		})
	}
}

// progress waits until each worker has had n more writes acknowledged.
func (t *team) progress(n uint64) error {
	want := make([]uint64, len(t.members))
	for i, w := range t.members {
		want[i] = w.acknowledged.Load() + n
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		done := true
		for i, w := range t.members {
			done = done && w.acknowledged.Load() >= want[i]
		}
		select {
		case err := <-t.failed:
			return err
		default:
		}
		switch {
		case done:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("no progress: %v", t.members)
		}
	}
}

// end ends the work and returns the first error. A second end does nothing.
func (t *team) end() error {
	if t.stop == nil {
		return nil
	}
	t.stop()
	t.stop = nil
	t.over.Wait()
	select {
	case err := <-t.failed:
		return err
	default:
		return nil
	}
}

// checkAtRest compares the files on disk with the ledgers, while no server runs.
func (t *team) checkAtRest(files store) error {
	for _, w := range t.members {
		v := w.ledger.View(0, fileBlocks)
		p, err := files.get(w.name)
		if err == nil && len(p) != fileSize {
			err = fmt.Errorf("it has %d bytes", len(p))
		}
		if err == nil {
			err = w.ledger.CheckAtRest(v, p, 0)
		}
		if err != nil {
			return fmt.Errorf("%v: at rest: %w", w, err)
		}
	}
	return nil
}
