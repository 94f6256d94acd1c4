package smbserver

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/vfs"
)

// maxChanges bounds the changes that a watch holds and that one response carries, in bytes.
const maxChanges = smbwire.CreditUnit

// handleChangeNotify serves CHANGE_NOTIFY. The first request of an open begins the watch: its filter,
// its depth and its size apply until the open is closed. Without changes the request waits, unless
// another request of its message follows. Single requests are served in the order of arrival.
//
// Source: [MS-SMB2 3.3.5.19], [MS-SMB2 2.2.35]
func handleChangeNotify(r *request, q smbwire.ChangeNotifyRequest) ntstatus.Status {
	o, st := r.open(q.FileID)
	switch {
	case st != ntstatus.Success:
		return st
	case !r.allows(0, q.OutputBufferLength) || o.file == nil:
		return ntstatus.InvalidParameter
	}
	if st := o.watch.begin(r, o.file, &q); st != ntstatus.Success {
		return st
	}
	if !r.last {
		return ntstatus.InternalError
	}
	limit := int(min(q.OutputBufferLength, maxChanges))
	memory, ok := r.hold(bufferFixed + limit)
	if !ok {
		return ntstatus.InsufficientResources
	}
	wait := &changeWait{limit: limit, out: r.resp.begin(bufferFixed + limit), done: make(chan struct{})}
	if o.watch.wait(wait) {
		memory.give()
		return wait.respond(r)
	}
	if !r.park(memory, func() ntstatus.Status {
		select {
		case <-wait.done:
		case <-r.waitCtx.Done():
			if o.watch.giveUp(wait) {
				return ntstatus.Cancelled
			}
		}
		return wait.respond(r)
	}) {
		if o.watch.giveUp(wait) {
			return ntstatus.InsufficientResources
		}
		return wait.respond(r)
	}
	return ntstatus.Pending
}

// changeWait is a CHANGE_NOTIFY that waits for changes. watch.mu guards changes and status until done
// is closed.
type changeWait struct {
	out     []byte // the buffer of the response
	limit   int    // of the changes, in bytes
	done    chan struct{}
	changes int // bytes of changes in out
	status  ntstatus.Status
}

// respond makes the response of a wait that is over.
func (c *changeWait) respond(r *request) ntstatus.Status {
	var head smbwire.BufferResponse
	b := head.AppendFixed(c.out[:bodyOffset], c.changes)
	r.resp.set(b[:len(b)+c.changes])
	return c.status
}

// end ends the wait with changes. Precondition: watch.mu is held.
func (c *changeWait) end(st ntstatus.Status, changes []byte) {
	c.status = st
	c.changes = copy(c.out[bodyOffset+bufferFixed:bodyOffset+bufferFixed+c.limit], changes)
	close(c.done)
}

// watch holds the changes of an open directory until a CHANGE_NOTIFY asks for them. Safe for
// concurrent use.
//
// Source: [MS-SMB2 3.3.5.19], [MS-FSA 2.1.5.11]
type watch struct {
	beginning sync.Mutex // held during begin
	begun     bool       // guarded by beginning

	mu      sync.Mutex
	source  *vfs.Watch      // paused while lost; nil during its begin
	limit   int             // of list, in bytes; a list that would be longer is lost
	over    ntstatus.Status // of all further requests, or Success
	lost    bool
	list    []byte        // of smbwire.NotifyInfo
	last    int           // offset of the last change in list, negative if there is none
	waiting []*changeWait // in the order of arrival
}

// watchMemory is the memory of a watch without its list, in bytes.
const watchMemory = 1 << 10

// begin begins the watch, unless it has begun. The close of the open ends it.
func (w *watch) begin(r *request, file *vfs.Open, q *smbwire.ChangeNotifyRequest) ntstatus.Status {
	w.beginning.Lock()
	defer w.beginning.Unlock()
	if w.begun {
		return ntstatus.Success
	}
	limit := int(min(q.OutputBufferLength, maxChanges))
	memory, ok := r.conn.hold(r.session.user, int64(watchMemory+limit), 0)
	if !ok {
		return ntstatus.InsufficientResources
	}
	w.mu.Lock()
	w.limit, w.last = limit, -1
	w.mu.Unlock()
	source, err := file.Watch(vfs.ChangeFilter(q.CompletionFilter), q.Flags&smbwire.ChangeNotifyWatchTree != 0, w.add)
	if err != nil {
		memory.give()
		return statusOf(err)
	}
	w.begun = true
	w.mu.Lock()
	if w.source = source; w.lost {
		source.Pause()
	}
	w.mu.Unlock()
	file.OnRevoke(func() {
		source.Stop()
		w.end(ntstatus.NotifyCleanup)
		memory.give()
	})
	return ntstatus.Success
}

// add adds the changes of one operation, and hands all changes to the request that waits the longest.
// No changes mean that the directory is being deleted. If the list is full, the client has to
// enumerate the directory.
func (w *watch) add(changes []vfs.Change) {
	if len(changes) == 0 {
		w.end(ntstatus.DeletePending)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over != ntstatus.Success {
		return
	}
	for i := range changes {
		w.appendLocked(&changes[i])
	}
	if len(w.waiting) > 0 {
		first := w.waiting[0]
		w.waiting = slices.Delete(w.waiting, 0, 1)
		w.deliverLocked(first)
	}
}

// appendLocked appends a change to the list, unless it repeats the last one. Lost changes pause the watch: a client can
// have thousands of watches that are never asked for, and each operation of others would go to all of them.
func (w *watch) appendLocked(c *vfs.Change) {
	if w.lost {
		return
	}
	name, err := smbwire.UTF16(strings.ReplaceAll(c.Name, "/", `\`))
	i := smbwire.NotifyInfo{Action: uint32(c.Action), Name: name}
	if err != nil || smbwire.NotifyInfoSize(len(w.list), len(name)) > w.limit {
		w.list, w.last, w.lost = nil, -1, true
		if w.source != nil {
			w.source.Pause()
		}
		return
	}
	if w.list == nil {
		w.list = make([]byte, 0, w.limit)
	}
	if w.last >= 0 && c.Action == vfs.NameModified {
		if again, _ := smbwire.AppendNotifyInfo(nil, 0, -1, &i); bytes.Equal(again, w.list[w.last:]) {
			return
		}
	}
	w.list, w.last = smbwire.AppendNotifyInfo(w.list, 0, w.last, &i)
}

// deliverLocked ends a wait with all changes.
func (w *watch) deliverLocked(to *changeWait) {
	if w.lost || len(w.list) > to.limit {
		to.end(ntstatus.NotifyEnumDir, nil)
	} else {
		to.end(ntstatus.Success, w.list)
	}
	w.list, w.last = nil, -1
	if w.lost {
		w.lost = false
		w.source.Resume()
	}
}

// wait ends a wait with the changes that there are, and reports true. Without changes it queues the
// wait.
func (w *watch) wait(c *changeWait) (over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.over != ntstatus.Success:
		c.end(w.over, nil)
	case w.lost || len(w.list) > 0:
		w.deliverLocked(c)
	default:
		w.waiting = append(w.waiting, c)
		return false
	}
	return true
}

// giveUp removes a wait from the queue. It reports false if the wait is over.
func (w *watch) giveUp(c *changeWait) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.waiting, c)
	if i < 0 {
		return false
	}
	w.waiting = slices.Delete(w.waiting, i, i+1)
	return true
}

// end ends all waits, and those to come.
func (w *watch) end(st ntstatus.Status) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over != ntstatus.Success {
		return
	}
	w.over = st
	for _, c := range w.waiting {
		c.end(st, nil)
	}
	w.waiting, w.list = nil, nil
}
