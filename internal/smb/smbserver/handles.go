package smbserver

import (
	"sync"
	"sync/atomic"

	"lwio/internal/account"
	"lwio/internal/ntstatus"
	"lwio/vfs"
)

// tree is a session's use of a share, or of IPC$ if share is nil.
//
// Source: [MS-SMB2 3.3.1.9]
type tree struct {
	id     uint32
	share  *vfs.Share
	memory account.Charge // of the tree connect; handleTable.mu guards it
}

// handleMemory is the memory of a tree connect or of an open pipe, in bytes.
const handleMemory = 1 << 10

// isPipe reports whether the tree is IPC$.
func (t *tree) isPipe() bool { return t.share == nil }

// open is a file, directory or pipe that a session has open: either file or pipe is set.
// The volatile and the persistent part of its FileId are equal, unless a session before has made the
// open.
//
// Source: [MS-SMB2 3.3.1.10]
type open struct {
	id         uint64 // the volatile part of the FileId
	persistent uint64
	tree       *tree
	file       *vfs.Open
	durable    *durable   // nil if the open ends with the connection
	lease      *openLease // nil if its CREATE asked for none
	pipe       *pipe
	// unpublished says that a rename cancels the pending delete of the file, of a CREATE of a whole file.
	unpublished bool

	search   search        // of a directory
	watch    watch         // of a directory
	position atomic.Uint64 // behind the last byte read, or set by the client
}

// lasting reports whether the open outlives its connection.
func (o *open) lasting() bool { return o.durable != nil && o.durable.lasting }

// close closes the file or pipe and returns when that is done.
func (o *open) close() error {
	if o.pipe != nil {
		o.pipe.close()
		return nil
	}
	return o.file.Close()
}

// closeAll closes several opens concurrently, so that a close that stalls does not delay
// the others. It returns when all are closed.
func closeAll(fs *vfs.FS, opens []*open) {
	var files []*vfs.Open
	for _, o := range opens {
		if o.pipe != nil {
			o.pipe.close()
		} else {
			files = append(files, o.file)
		}
	}
	fs.CloseAll(files...)
}

// maxPipes bounds the open pipes of a session.
const maxPipes = 64

// handleTable holds the tree connects and opens of one session. It is safe for concurrent
// use.
type handleTable struct {
	maxTrees, maxOpens int

	mu       sync.Mutex
	closed   bool
	trees    map[uint32]*tree
	lastTree uint32
	opens    map[uint64]*open // by volatile id
	pipes    int              // the number of open pipes
}

func newHandleTable(maxTrees, maxOpens int) *handleTable {
	return &handleTable{
		maxTrees: maxTrees, maxOpens: maxOpens, trees: make(map[uint32]*tree), opens: make(map[uint64]*open),
	}
}

// close removes all handles and refuses new ones. It returns the opens, which stay open.
func (h *handleTable) close() (opens []*open) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, o := range h.opens {
		opens = append(opens, o)
		h.removeLocked(o)
	}
	for _, t := range h.trees {
		t.memory.Return()
	}
	clear(h.trees)
	return opens
}

// connect adds a tree connect and gives it its id.
func (h *handleTable) connect(t *tree) ntstatus.Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return ntstatus.UserSessionDeleted
	case len(h.trees) >= h.maxTrees:
		return ntstatus.InsufficientResources
	}
	for {
		h.lastTree++
		if _, taken := h.trees[h.lastTree]; !taken && h.lastTree != 0 && h.lastTree != ^uint32(0) {
			break
		}
	}
	t.id = h.lastTree
	h.trees[t.id] = t
	return ntstatus.Success
}

// tree returns the tree connect with an id, or nil.
func (h *handleTable) tree(id uint32) *tree {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.trees[id]
}

// disconnect removes a tree connect with its opens, which it returns.
func (h *handleTable) disconnect(t *tree) (gone []*open) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.trees, t.id)
	t.memory.Return()
	for _, o := range h.opens {
		if o.tree == t {
			gone = append(gone, o)
			h.removeLocked(o)
		}
	}
	return gone
}

// add adds an open under a volatile id. It fails if the session or the tree connect has ended, or
// if there are too many opens.
func (h *handleTable) add(o *open, id uint64) ntstatus.Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return ntstatus.UserSessionDeleted
	case h.trees[o.tree.id] != o.tree:
		return ntstatus.NetworkNameDeleted
	case len(h.opens) >= h.maxOpens:
		return ntstatus.TooManyOpenedFiles
	case o.pipe != nil && h.pipes >= maxPipes:
		return ntstatus.PipeNotAvailable
	}
	if o.pipe != nil {
		h.pipes++
	}
	if o.id = id; o.persistent == 0 {
		o.persistent = id
	}
	h.opens[id] = o
	return ntstatus.Success
}

// open returns the open with an id, or nil.
func (h *handleTable) open(id uint64) *open {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.opens[id]
}

// remove removes an open. It reports false if the open is not in the table.
func (h *handleTable) remove(o *open) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.opens[o.id] != o {
		return false
	}
	h.removeLocked(o)
	return true
}

// removeLocked removes an open. Precondition: mu is held, and the open is in the table.
func (h *handleTable) removeLocked(o *open) {
	if o.pipe != nil {
		h.pipes--
		o.pipe.memory.Return()
	}
	delete(h.opens, o.id)
}
