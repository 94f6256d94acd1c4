package vfs

import (
	"math"
	"sync"

	"lwio/internal/ntstatus"
)

// Overtaker is a write whose outcome is in doubt if the process dies before it ends. The next process may do it
// again, with the same bytes, unless another change of these bytes could then be lost or undone.
type Overtaker interface {
	// Overtaken notes, before the effect of another change of the same bytes, that the write must not be done again.
	// It is called with a mutex of the file held, at any time between BeginWrite and EndWrite, from any goroutine. It
	// does not wait, and calls nothing of this package.
	Overtaken()
}

// Write names a write in progress. The zero value names none.
type Write struct{ id uint64 }

// writesInProgress are the changes of the content of a file that are in progress, and the writes of an earlier
// process that are in doubt. Safe for concurrent use.
type writesInProgress struct {
	mu   sync.Mutex
	last uint64
	list []writeInProgress // in no order
}

// writeInProgress is a change of the bytes from off to end.
type writeInProgress struct {
	id        uint64
	off, end  int64
	by        Overtaker // nil if it is not done again
	overtaken bool
	again     bool // Redo has done it
}

// begin adds a change, and notes at each other one of the same bytes that it is overtaken. If the other one has
// not ended, so is the change itself.
func (t *writesInProgress) begin(by Overtaker, off, end int64) Write {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	w := writeInProgress{id: t.last, off: off, end: end, by: by}
	for i := range t.list {
		if x := &t.list[i]; x.off < end && off < x.end {
			x.overtake()
			w.overtake()
		}
	}
	t.list = append(t.list, w)
	return Write{w.id}
}

func (w *writeInProgress) overtake() {
	if w.by != nil && !w.overtaken {
		w.by.Overtaken()
	}
	w.overtaken = true
}

// end removes a change.
func (t *writesInProgress) end(w Write) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x := t.findLocked(w); x != nil {
		n := len(t.list) - 1
		*x = t.list[n]
		t.list[n] = writeInProgress{}
		t.list = t.list[:n]
	}
}

// findLocked returns a change that is in progress, or nil.
func (t *writesInProgress) findLocked(w Write) *writeInProgress {
	for i := range t.list {
		if t.list[i].id == w.id {
			return &t.list[i]
		}
	}
	return nil
}

// TrackWrites makes the FS note which writes other changes of the same bytes overtake, at the cost of a mutex of the
// file for each write. It is called before the first open.
func (f *FS) TrackWrites() { f.tracks.Store(true) }

// BeginWrite begins a write of n bytes at off, which WriteAtBegun or WriteVecBegun does and EndWrite ends. It does
// nothing unless the FS tracks writes.
//
// Source: [OP-112]
func (o *Open) BeginWrite(by Overtaker, off int64, n int) Write {
	if off < 0 || off > math.MaxInt64-int64(n) {
		return Write{} // it fails
	}
	return o.beginChange(by, off, off+int64(n))
}

// beginChange begins a change of the bytes from off to end, which EndWrite ends. The change of an open that may only
// append can be at any place; done twice it would append twice.
func (o *Open) beginChange(by Overtaker, off, end int64) Write {
	switch {
	case !o.fs.tracks.Load() || o.writes == nil:
		return Write{}
	case o.locks.appends != nil:
		if by != nil {
			by.Overtaken()
		}
		by, off, end = nil, 0, math.MaxInt64
	}
	return o.writes.begin(by, off, end)
}

// EndWrite ends a write once its result is kept. It may be called twice.
func (o *Open) EndWrite(w Write) {
	if w != (Write{}) {
		o.writes.end(w)
	}
}

// InDoubt adds a write of an earlier process to those in progress on the open with a resume key, as by BeginWrite.
// It returns nil if there is no such open. It is called after Restore, before there are other opens.
//
// Source: [OP-112]
func (f *FS) InDoubt(key [24]byte, by Overtaker, off int64, n int) (*Open, Write) {
	f.table.mu.Lock()
	o := f.table.byKey[key]
	f.table.mu.Unlock()
	if o == nil {
		return nil, Write{}
	}
	return o, o.BeginWrite(by, off, n)
}

// errOvertaken refuses to do a write again.
var errOvertaken = because(ntstatus.RequestOutOfSequence, "the file was changed since the write began")

// Redo does a write of an earlier process again, unless another change of the same bytes has begun since that
// write began. No such change begins until Redo returns. The caller holds a reference, and ends the write.
//
// Errors: REQUEST_OUT_OF_SEQUENCE if the write was overtaken, or done again before; the errors of WriteAt, after which
// the outcome of the write is in doubt still.
//
// Source: [OP-112]
func (o *Open) Redo(w Write, p []byte, off int64) (int, error) {
	if w == (Write{}) {
		return 0, o.fail("write", errOvertaken)
	}
	t := o.writes
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.findLocked(w)
	if x == nil || x.overtaken || x.again {
		return 0, o.fail("write", errOvertaken)
	}
	x.again = true
	return o.WriteAtBegun(p, off)
}
