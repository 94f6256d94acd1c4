package server

import (
	"sync"
	"sync/atomic"

	"lwio/internal/account"
	"lwio/rdma"
	"lwio/vfs"
)

// registeredFile is a file registered on a connection.
//
// The file table has one reference, and each I/O request has one from its arrival until its data
// and answer are posted. All of them together hold one reference on the open. The end of the last
// one ends the registration: it removes the stall hook, releases the open, leaves the queues and
// the usage that all registrations of the file share, and answers the CLOSE that waits.
//
// Source: [LWIO §File Registration] [OP-53]
type registeredFile struct {
	id   uint16
	open *vfs.Open
	// sum counts the registration for user, until its end.
	sum  *account.Sum
	user string
	// canRead and canWrite are the rights that SMB granted. [OP-57]
	canRead, canWrite bool
	// unbuffered is the open's FILE_NO_INTERMEDIATE_BUFFERING. [OP-51]
	unbuffered bool
	// traffic counts the I/O of the share.
	traffic *shareTraffic
	// source allows RDMA writes straight from the file; nil without support of the provider.
	// The receive loop uses it for operations that hold a reference.
	source rdma.FileSource
	// size is the last size of the file that the receive loop has read, in bytes. The loop
	// owns it.
	size int64
	// reading, writing and syncing are the queues of the file, shared by all registrations.
	reading, writing, syncing *fileQueue
	// buffers is the pool that usage belongs to. memory is the part of usage that this
	// registration holds, in bytes; bufferPool.mu guards it.
	buffers *bufferPool
	usage   *fileUsage
	memory  int
	// stopRevoke and stopStall remove the hooks from the open. Only the receive loop calls
	// stopRevoke. The stall hook stays until the end of the registration, because I/O in flight
	// can delay the close of the open after a CLOSE.
	stopRevoke, stopStall func()
	// jobs are the jobs of the connection. The closing of source is one.
	jobs *sync.WaitGroup

	refs atomic.Int32
	// closer is the CLOSE that waits for the I/O in flight. It is set before the table drops
	// its reference. [OP-94d]
	closer *op
}

// join makes f share the queues and the pool usage of its file.
func (f *registeredFile) join(e *engine, pool *bufferPool) {
	node := f.open.Node()
	f.reading, f.writing, f.syncing = e.readers.join(node), e.writers.join(node), e.syncers.join(node)
	f.buffers, f.usage = pool, pool.join(node)
}

// acquire takes a reference for an I/O request; false if the file is being closed, by the client
// or by SMB.
func (f *registeredFile) acquire() bool {
	for {
		n := f.refs.Load()
		if n == 0 {
			return false
		}
		if f.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release drops a reference and returns the CLOSE that waited for the last one, or nil. It does no
// I/O: a job of the connection closes the source.
//
// Precondition: the connection does not wait for its jobs yet, or the caller is one of them.
func (f *registeredFile) release() (closer *op) {
	if f.refs.Add(-1) > 0 {
		return nil
	}
	if f.source == nil {
		f.end()
	} else {
		f.jobs.Go(f.end)
	}
	return f.closer
}

// end ends the registration. The source is closed before the file can be.
func (f *registeredFile) end() {
	f.stopStall()
	f.detach()
	f.open.Release()
	f.sum.Give(f.user, 1, account.Last)
}

// detach undoes join and attach. It may wait for I/O if there is a source.
func (f *registeredFile) detach() {
	if f.source != nil {
		f.source.Close()
		f.source = nil
	}
	f.reading.leave()
	f.writing.leave()
	f.syncing.leave()
	f.buffers.leave(f.usage)
}

// fileTable numbers the files of a connection from 1 on; 0 is never used. A file gets the next free
// number, so a number is reused as late as possible. The receive loop adds files and looks them
// up; any goroutine removes them.
//
// Source: [OP-54] [OP-55]
type fileTable struct {
	limit int
	// recent is the file of the last look-up, or nil after its removal. Most clients use one
	// file at a time, and the lock costs as much as the rest of the look-up.
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

// remove takes f out and reports whether it was there. If so, the reference of the table becomes
// the caller's, and the caller is one of jobs. A connection waits for its jobs after removeAll, so
// that it waits for the caller too.
func (t *fileTable) remove(f *registeredFile, jobs *sync.WaitGroup) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[f.id] != f {
		return false
	}
	jobs.Add(1)
	delete(t.byID, f.id)
	t.recent.CompareAndSwap(f, nil)
	return true
}

// removeAll empties the table and returns its files. The references of the table become the
// caller's.
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
