package survive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lwio"
	"lwio/integration/internal/supervise"
)

// shared is the file that all errands lock.
const shared = "shared"

// errand is a client that makes files and removes them, and takes turns with others under a lock. No call may fail; the
// outcome of a change that was sent may be uncertain, and then it asks.
type errand struct {
	number    int
	transport string
	holder    *atomic.Int64 // the number of the errand whose turn it is, or 0
	r         *rand.Rand
	done      atomic.Uint64
	step      atomic.Pointer[string] // in progress

	wires
	c *lwio.Client
	f *lwio.File // shared
}

// errands are several of them.
type errands struct {
	list   []*errand
	stop   context.CancelFunc
	over   sync.WaitGroup
	failed chan error
	holder atomic.Int64
}

// startErrands starts one errand for each transport.
func startErrands(t *testing.T, s *supervise.Server) *errands {
	t.Helper()
	all := &errands{failed: make(chan error, len(transports))}
	var stop context.Context
	stop, all.stop = context.WithCancel(context.Background())
	t.Cleanup(func() { _ = all.end() }) // the error is reported, or the test has failed already
	for i, transport := range transports {
		e := &errand{number: i + 1, transport: transport, holder: &all.holder, r: rand.New(rand.NewPCG(uint64(i), 3))}
		var err error
		if e.c, err = lwio.Dial(t.Context(), s.URL(""), e.config(transport)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.c.Close() })
		if e.f, err = e.c.OpenFile(t.Context(), shared, os.O_RDWR|os.O_CREATE, 0); err != nil {
			t.Fatal(err)
		}
		all.list = append(all.list, e)
		all.over.Go(func() {
			if err := e.run(stop); err != nil {
				all.failed <- fmt.Errorf("errand %d over %s: %w", e.number, transport, err)
			}
		})
	}
	return all
}

// err returns the first error so far.
func (a *errands) err() error {
	select {
	case err := <-a.failed:
		return err
	default:
		return nil
	}
}

// progress waits until each errand has been done once more.
func (a *errands) progress() error {
	want := make([]uint64, len(a.list))
	for i, e := range a.list {
		want[i] = e.done.Load() + 1
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		done := true
		for i, e := range a.list {
			done = done && e.done.Load() >= want[i]
		}
		if err := a.err(); err != nil || done {
			return err
		}
		if time.Now().After(end) {
			err := errors.New("errands make no progress")
			for _, e := range a.list {
				err = errors.Join(err, fmt.Errorf("errand %d over %s: %d done, %s", e.number, e.transport, e.done.Load(), *e.step.Load()))
			}
			return err
		}
	}
}

// end ends the errands and returns the first error.
func (a *errands) end() error {
	a.stop()
	a.over.Wait()
	return a.err()
}

// does notes the next step.
func (e *errand) does(step string) { e.step.Store(&step) }

func (e *errand) run(stop context.Context) error {
	for i := 0; stop.Err() == nil; i++ {
		if err := e.file(fmt.Sprintf("errand%d-%d", e.number, i)); err != nil {
			return err
		}
		if err := e.turn(); err != nil {
			return err
		}
		e.done.Add(1)
	}
	return errors.Join(e.f.Close(), e.c.Close())
}

// file makes, locks, writes, syncs, reads, renames and removes a file.
func (e *errand) file(name string) error {
	ctx := context.Background()
	e.does("creates " + name)
	f, err := e.c.OpenFile(ctx, name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0) // it is made once, by this call
	if err != nil {
		return err
	}
	e.does("locks and writes " + name)
	content := bytes.Repeat([]byte(name), 1+e.r.IntN(2000))
	err = errors.Join(f.TryLock(ctx, lockedRange, lwio.LockExclusive), written(f, content), f.Sync(ctx), holds(f, content))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	e.does("renames " + name)
	now, err := e.rename(name, name+"-renamed")
	if err != nil {
		return err
	}
	e.does("unlocks and reads " + now)
	if err := errors.Join(f.Unlock(ctx, lockedRange), holds(f, content)); err != nil {
		return fmt.Errorf("%s: %w", now, err)
	}
	if e.r.IntN(2) == 0 {
		e.does("removes and closes " + now)
		return errors.Join(e.remove(now), f.Close(), e.gone(now))
	}
	e.does("closes and removes " + now)
	return errors.Join(f.Close(), e.remove(now), e.gone(now))
}

// written writes content, again as long as the outcome is uncertain.
func written(f *lwio.File, content []byte) error {
	for {
		_, err := f.WriteAt(content, 0)
		if !errors.Is(err, lwio.ErrUncertain) {
			return err
		}
	}
}

// holds expects content in a file.
func holds(f *lwio.File, content []byte) error {
	p := make([]byte, len(content))
	if _, err := f.ReadAt(p, 0); err != nil {
		return err
	}
	if !bytes.Equal(p, content) {
		return errors.New("it has other bytes than were written")
	}
	return nil
}

// rename renames a file, and returns the name that it has then.
func (e *errand) rename(from, to string) (string, error) {
	ctx := context.Background()
	err := e.c.Rename(ctx, from, to)
	if !errors.Is(err, lwio.ErrUncertain) {
		return to, err
	}
	_, old := e.c.Stat(ctx, from)
	_, now := e.c.Stat(ctx, to)
	switch {
	case old == nil && errors.Is(now, fs.ErrNotExist):
		return from, nil
	case now == nil && errors.Is(old, fs.ErrNotExist):
		return to, nil
	}
	return "", fmt.Errorf("after an uncertain rename: %s: %w, %s: %w", from, old, to, now)
}

// remove removes a file, which may be removed already after an uncertain attempt.
func (e *errand) remove(name string) error {
	for again := false; ; again = true {
		err := e.c.Remove(context.Background(), name)
		switch {
		case again && (errors.Is(err, fs.ErrNotExist)):
			return nil
		case !errors.Is(err, lwio.ErrUncertain):
			return err
		}
	}
}

// gone expects no file of a name.
func (e *errand) gone(name string) error {
	if _, err := e.c.Stat(context.Background(), name); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s was removed: %w", name, err)
	}
	return nil
}

// turn waits for the lock of the shared file, which no other errand has then.
func (e *errand) turn() error {
	ctx := context.Background()
	e.does("waits for the lock")
	if err := e.f.Lock(ctx, lockedRange, lwio.LockExclusive); err != nil {
		return err
	}
	if !e.holder.CompareAndSwap(0, int64(e.number)) {
		return fmt.Errorf("errand %d has the lock too", e.holder.Load())
	}
	e.does("writes under the lock")
	content := []byte(fmt.Sprint("errand ", e.number))
	err := errors.Join(written(e.f, content), holds(e.f, content))
	e.holder.Store(0)
	e.does("unlocks")
	return errors.Join(err, e.f.Unlock(ctx, lockedRange))
}
