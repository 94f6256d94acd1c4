package lwiotest_test

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"

	"lwio/rdma"
	"lwio/rdma/rdmatest/fault"
	"lwio/vfs"
)

// faults are injected into the requests that one side posts.
type faults struct {
	mu    sync.Mutex
	armed []trap
}

// trap is a fault of one of the next requests.
type trap struct {
	left      int // posts before it
	act       fault.Action
	sendsOnly bool
	do        func() // beside act, or nil
}

// arm adds a trap, in place of another if there are three: a call survives so many losses in a
// row.
func (f *faults) arm(t trap) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.armed) == 3 {
		f.armed = f.armed[1:]
	}
	f.armed = append(f.armed, t)
}

// disarm removes the traps that have not had their effect.
func (f *faults) disarm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = nil
}

// decide is the Fault of a fault.Config.
func (f *faults) decide(a fault.Attempt) fault.Action {
	f.mu.Lock()
	defer f.mu.Unlock()
	act := fault.Pass()
	kept := f.armed[:0]
	for _, t := range f.armed {
		switch {
		case t.sendsOnly && a.Request.Op != rdma.OpSend:
		case t.left > 0:
			t.left--
		default:
			if t.do != nil {
				t.do()
			}
			act = t.act
			continue
		}
		kept = append(kept, t)
	}
	f.armed = kept
	return act
}

// slowDisk is a backend with slow writes, so that writes are done in another order than they
// arrived, and after their clients have disconnected.
type slowDisk struct {
	vfs.Backend
	stall *atomic.Int32 // writes until one that takes long; below 0 for none
}

func (d slowDisk) Open(path string, how vfs.HandleMode) (vfs.Handle, error) {
	return d.slow(d.Backend.Open(path, how))
}

func (d slowDisk) Create(path string, how vfs.HandleMode, readOnly bool) (vfs.Handle, error) {
	return d.slow(d.Backend.Create(path, how, readOnly))
}

func (d slowDisk) slow(h vfs.Handle, err error) (vfs.Handle, error) {
	if err != nil {
		return nil, err
	}
	return slowFile{h, d.stall}, nil
}

type slowFile struct {
	vfs.Handle
	stall *atomic.Int32
}

func (f slowFile) WriteAt(p []byte, off int64, durable bool) (int, error) {
	switch {
	case f.stall.Add(-1) == 0:
		time.Sleep(10 * time.Millisecond)
	case len(p) > 0 && p[0]%8 == 0:
		time.Sleep(time.Duration(p[0]) * time.Microsecond)
	}
	return f.Handle.WriteAt(p, off, durable)
}

func (f slowFile) WriteVec(pieces [][]byte, off int64, durable bool) (int, error) {
	return f.WriteAt(bytes.Join(pieces, nil), off, durable)
}

// ReadCached finds half of the pages in the cache.
func (f slowFile) ReadCached(p []byte, off int64) (int, bool, error) {
	if off>>12&1 == 0 {
		return 0, false, nil
	}
	return f.Handle.ReadCached(p, off)
}
