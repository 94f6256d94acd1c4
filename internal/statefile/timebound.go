package statefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// BoundStep is the step of a TimeBound: it is at most that far ahead of the clock, and at least half of it.
const BoundStep = time.Second

// TimeBound is an upper bound of the times at which this process has changed files, by the clock of the host. The next
// process reads it as Earlier: a file with a later time was changed by another process meanwhile. So the bound is moved
// ahead of a change (Cover), and, while it matters, ahead of the clock (Extend). Log.Close sets it to the present time:
// the process changes nothing any more. A clock that is set back does not move it back. Safe for concurrent use.
type TimeBound struct {
	dir  directory
	boot string
	// began is the zero of until, which is the time, without steps of the clock, up to which the bound is far enough ahead.
	began time.Time
	until atomic.Int64

	earlier    time.Time // Earlier, or its error
	earlierErr error

	mu     sync.Mutex
	file   file // nil before the first extension, and after a failure
	closed bool
	bound  int64 // the last one, also of the process before
	offset int64 // of the clock from steadyTime, when it was set
	held   bool  // it was set when the clock was later than now
}

// The file of a bound has the bound (8 bytes), the difference between the clock and steadyTime when it was set (8 bytes),
// magic, and the boot id of the host behind its length (1 byte). Times are in nanoseconds, numbers in little-endian
// order.
const (
	boundName  = "times"
	boundMagic = "LWIOTIME"
	boundSize  = (16 + len(boundMagic) + 1 + bootIDSize + 7) &^ 7
	boundSpace = 4096
)

// init reads the bound of an earlier process.
func (t *TimeBound) init(d directory, boot string) {
	t.dir, t.boot, t.began = d, boot, time.Now()
	if t.earlier, t.earlierErr = readBound(d, boot); t.earlierErr == nil {
		t.bound = t.earlier.UnixNano()
	}
}

// readBound reads the bound of an earlier process. If the clock was set forward since that was stored, or the host was
// suspended, the bound is later by that: the process may have made changes after it.
func readBound(d directory, boot string) (time.Time, error) {
	b, err := d.load(boundName)
	if err != nil {
		return time.Time{}, fmt.Errorf("state: %w", err)
	}
	if len(b) < boundSize || !bytes.Equal(b[16:boundSize], encodeBound(0, 0, boot)[16:]) {
		return time.Time{}, fmt.Errorf("state: %s: %w: not of this run of the host", d.path(boundName), fs.ErrNotExist)
	}
	bound, offset := int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[8:]))
	if bound == 0 {
		return time.Time{}, fmt.Errorf("state: %s: %w: it has no time", d.path(boundName), fs.ErrNotExist)
	}
	steady := steadyTime() // first: a pause here makes the bound later, and not earlier
	step := time.Now().UnixNano() - steady - offset
	return time.Unix(0, bound+max(step, 0)), nil
}

// encodeBound returns the content of the file.
func encodeBound(bound, offset int64, boot string) []byte {
	b := make([]byte, 0, boundSize)
	b = binary.LittleEndian.AppendUint64(b, uint64(bound))
	b = binary.LittleEndian.AppendUint64(b, uint64(offset))
	b = append(append(b, boundMagic...), byte(len(boot)))
	return append(b, boot...)[:boundSize]
}

// Earlier returns the bound of the process before this one: it has made no change later than that.
//
// Errors: fs.ErrNotExist if it has left none since the host was started; failures of the file system.
func (t *TimeBound) Earlier() (time.Time, error) { return t.earlier, t.earlierErr }

// Cover is called before a change of a file, and moves the bound if that is not ahead of it. It is cheap: most calls only look
// at a clock. The next Extend reports a failure.
func (t *TimeBound) Cover() {
	if int64(time.Since(t.began)) >= t.until.Load() {
		_ = t.Extend() // a failure leaves no bound, by which no file has changed
	}
}

// Extend moves the bound ahead of the clock.
//
// Errors: failures of the file system. The bound of an earlier call is removed then, if possible.
func (t *TimeBound) Extend() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	since, now := time.Since(t.began), time.Now().UnixNano()
	offset := now - steadyTime() // second: a pause here makes the bound of readBound later, and not earlier
	t.held = t.bound > now+int64(BoundStep)
	t.bound, t.offset = max(t.bound, now+int64(BoundStep)), offset
	err := t.storeLocked()
	if err != nil {
		err = errors.Join(err, t.discardLocked())
	}
	t.until.Store(int64(since + BoundStep/2)) // also after a failure: the next attempt is not one for each change
	return err
}

// storeLocked stores the bound into the file. Precondition: mu is held.
func (t *TimeBound) storeLocked() error {
	if t.file == nil {
		if err := t.openLocked(); err != nil {
			return fmt.Errorf("state: %w", err)
		}
	}
	if err := t.file.commit(encodeBound(t.bound, t.offset, t.boot), 0); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}

// openLocked makes a file with its space in place of another one. The bound of an earlier process was read before.
// Precondition: mu is held.
func (t *TimeBound) openLocked() error {
	if err := t.dir.remove(boundName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := t.dir.create(boundName)
	if err != nil {
		return err
	}
	if err := f.reserve(0, boundSpace); err != nil {
		return errors.Join(err, f.Close())
	}
	t.file = f
	return nil
}

// discardLocked removes the file. Precondition: mu is held.
func (t *TimeBound) discardLocked() error {
	var err error
	if t.file != nil {
		err, t.file = t.file.Close(), nil
	}
	if e := t.dir.remove(boundName); !errors.Is(e, fs.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return err
}

// close sets the bound to the present time, if this process has set one, and closes the file. A bound from before the
// clock was set back stays.
func (t *TimeBound) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.until.Store(math.MaxInt64)
	if t.file == nil {
		return nil
	}
	now := time.Now().UnixNano()
	offset := now - steadyTime()
	if !t.held {
		t.bound = now + max(t.offset-offset, 0) // the latest time since Extend, also if the clock was set back since
	}
	t.offset = offset
	err := t.storeLocked()
	if err != nil {
		err = errors.Join(err, t.discardLocked())
	}
	if t.file != nil {
		err = errors.Join(err, t.file.Close())
	}
	return err
}
