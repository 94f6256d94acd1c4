package server

import (
	"sync"
	"sync/atomic"

	"lwio/rdma"
	"lwio/vfs"
)

// registeredFile is a file registered on a connection.
//
// Its references are one of the file table, and one of each I/O request from its arrival
// until its data and answer are posted. When the last one is gone, the file leaves the
// queues and the usage that it shares with registrations of the same file, and a CLOSE
// that waits for it is answered.
//
// Source: [LWIO §File Registration] [OP-53]
type registeredFile struct {
	id   uint16
	open *vfs.Open
	// canRead and canWrite are the rights that SMB granted. [OP-57]
	canRead, canWrite bool
	// unbuffered is the open's FILE_NO_INTERMEDIATE_BUFFERING. [OP-51]
	unbuffered bool
	// traffic counts the I/O of the share.
	traffic *shareTraffic
	// source makes RDMA writes straight from the file possible; nil if the provider cannot.
	// The receive loop uses it for operations that hold a reference.
	source rdma.FileSource
	// size is the size of the file when the receive loop last looked, in bytes. Owned by
	// the loop.
	size int64
	// reading and writing are the queues of the file, shared by all registrations.
	reading, writing *fileQueue
	// buffers is the pool that usage belongs to. memory is the part of usage that this
	// registration holds, in bytes; bufferPool.mu guards it.
	buffers *bufferPool
	usage   *fileUsage
	memory  int
	// unhook removes the hooks from the open.
	unhook func()

	refs atomic.Int32
	// closer is the CLOSE that waits for the I/O in flight, set before the table drops its
	// reference. [OP-94d]
	closer *op
}

// join makes f share the queues and the pool usage of its file.
func (f *registeredFile) join(e *engine, pool *bufferPool) {
	node := f.open.Node()
	f.reading, f.writing = e.readers.join(node), e.writers.join(node)
	f.buffers, f.usage = pool, pool.join(node)
}

// acquire takes a reference for an I/O request, and one on the open; false if the file is
// being closed, on this side or by SMB.
func (f *registeredFile) acquire() bool {
	for {
		n := f.refs.Load()
		if n == 0 {
			return false
		}
		if f.refs.CompareAndSwap(n, n+1) {
			break
		}
	}
	if f.open.Acquire() == nil {
		return true
	}
	f.unref() // the receive loop takes CLOSE and I/O in turn: no CLOSE waits yet
	return false
}

// release undoes acquire, and returns the CLOSE that is to be answered now, or nil.
func (f *registeredFile) release() (closer *op) {
	f.open.Release()
	return f.unref()
}

// unref drops a reference and returns the CLOSE that waited for the last one, or nil.
func (f *registeredFile) unref() (closer *op) {
	if f.refs.Add(-1) > 0 {
		return nil
	}
	f.detach()
	return f.closer
}

// detach undoes join and attach.
func (f *registeredFile) detach() {
	if f.source != nil {
		f.source.Close()
		f.source = nil
	}
	f.reading.leave()
	f.writing.leave()
	f.buffers.leave(f.usage)
}

// fileTable numbers the files of a connection from 1, never 0: the next free number,
// so that a number comes back as late as possible. The receive loop adds files and looks
// them up; any goroutine removes them.
//
// Source: [OP-54] [OP-55]
type fileTable struct {
	limit int
	// recent is the file of the last look-up, nil once it is removed: most clients use
	// one file at a time, and the lock costs as much as the rest of the look-up.
	recent atomic.Pointer[registeredFile]

	mu   sync.Mutex
	byID map[uint16]*registeredFile
	last uint16
}

// add numbers f and takes a reference for the table; false if the table is full.
func (t *fileTable) add(f *registeredFile) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byID) >= t.limit {
		return false
	}
	if t.byID == nil {
		t.byID = make(map[uint16]*registeredFile)
	}
	for {
		t.last++
		if _, taken := t.byID[t.last]; t.last != 0 && !taken {
			break
		}
	}
	f.id = t.last
	f.refs.Add(1)
	t.byID[f.id] = f
	return true
}

// get returns the file of a number; nil if there is none. Only the receive loop calls it.
func (t *fileTable) get(id uint16) *registeredFile {
	if f := t.recent.Load(); f != nil && f.id == id {
		return f
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.byID[id]
	t.recent.Store(f)
	return f
}

// remove takes f out and reports whether it was there. The reference of the table becomes
// the caller's.
func (t *fileTable) remove(f *registeredFile) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[f.id] != f {
		return false
	}
	delete(t.byID, f.id)
	t.recent.CompareAndSwap(f, nil)
	return true
}

// removeAll empties the table and returns its files, whose references become the caller's.
func (t *fileTable) removeAll() map[uint16]*registeredFile {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.byID
	t.byID = nil
	t.recent.Store(nil)
	return all
}

// len returns the number of files.
func (t *fileTable) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID)
}
