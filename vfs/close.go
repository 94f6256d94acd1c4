package vfs

import (
	"sync"
	"sync/atomic"

	"lwio/internal/account"
)

// Close ends the open. It refuses new references, ends waits for locks, runs the revoke hooks, and
// waits for the held references. Then it releases the locks, and deletes the file if its delete is
// pending and this was its last open. If I/O does not end within the time limit, the stall hooks
// run, and the limit begins again. After that Close continues, and the end of the last I/O closes
// the descriptor.
//
// Close is idempotent: every call waits for the first one and returns its result.
// Errors: the error of a failed delete; the open is closed anyway.
//
// Source: [OP-58b] [MS-SMB2 3.3.5.10]
func (o *Open) Close() error {
	o.fs.CloseAll(o)
	return o.closeErr
}

// CloseAll closes opens of the table together, each as Open.Close does. The closes wait at the same
// time. An open whose I/O does not end delays no other open: its locks, its share mode and its
// delete do not wait.
func (f *FS) CloseAll(opens ...*Open) {
	var first []*closing
	for _, o := range opens {
		if f.table.beginClose(o) {
			first = append(first, &closing{fs: f, open: o})
		}
	}
	for _, c := range first {
		c.open.locks.refuse()
		c.open.revoke.run()
	}
	var held sync.WaitGroup
	for _, c := range first {
		if c.open.refs.held() {
			held.Go(c.end)
		} else {
			c.end()
		}
	}
	held.Wait()
	for _, o := range opens {
		<-o.done
	}
}

// closing is a close in progress: its open refuses references and waits for no lock.
type closing struct {
	fs      *FS
	open    *Open
	notices leaseNotices
}

// end waits for the I/O in flight and finishes the close.
func (c *closing) end() {
	f, o := c.fs, c.open
	if !o.refs.wait(f.timeout) {
		f.log.Warn("vfs: I/O in flight delays a close", "open", o.id, "file", o.share.Name+"/"+o.Path())
		o.stall.run()
		o.refs.wait(f.timeout)
	}
	o.locks.release()
	o.closeErr = c.leave()
	c.notices.send()
	f.opens.Give(o.user, 1, account.Last)
	f.stalled.n.Add(1)
	if o.refs.abandon() {
		f.stalled.n.Add(-1)
		f.closeHandle(o)
	}
	close(o.done)
}

// leave removes the open from the table, and deletes the file if its delete is pending.
func (c *closing) leave() error {
	f, o := c.fs, c.open
	o.share.ns.RLock()
	defer o.share.ns.RUnlock()
	stripe := o.share.stripe(o.Path()) // only a rename changes the path, and none is in progress
	stripe.Lock()
	defer stripe.Unlock()

	c.notices = o.changes.settle()
	n := o.entry.node // fixed while the open is in the table
	d := f.table.unregister(o)
	if d == nil {
		return nil
	}
	err := fail("delete", d.share.Name, d.path, d.share.Backend.Remove(d.path, n.id, d.dir))
	if err != nil {
		f.log.Warn("vfs: delete on close", "err", err)
	} else {
		removed := change{nameKind(d.dir), NameRemoved, d.path}
		c.notices = append(c.notices, d.share.changed(d.closedBy(o.changes.parent), removed)...)
	}
	f.table.drop(n)
	return err
}

// closeHandle closes the handle of an open that no I/O uses any more.
func (f *FS) closeHandle(o *Open) {
	if err := o.handle.Close(); err != nil {
		f.log.Warn("vfs: close of a file", "open", o.id, "err", err)
	}
}

// stalledOpens counts the closed opens whose I/O has not ended, and closes their descriptors in
// goroutines: the end of the last I/O closes the descriptor, and must not wait. Safe for concurrent
// use.
type stalledOpens struct {
	n atomic.Int64

	mu      sync.Mutex
	closing int           // goroutines that close a descriptor
	none    chan struct{} // made by wait; closed when closing is 0
}

// end counts an open out, and closes its descriptor in a goroutine. After FS.Close it closes the
// descriptor itself.
func (s *stalledOpens) end(o *Open) {
	s.n.Add(-1)
	s.mu.Lock()
	over := s.none != nil
	if !over {
		s.closing++
		go s.close(o)
	}
	s.mu.Unlock()
	if over {
		o.fs.closeHandle(o)
	}
}

// close is the goroutine that closes the descriptor of o.
func (s *stalledOpens) close(o *Open) {
	o.fs.closeHandle(o)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing--; s.closing == 0 && s.none != nil {
		close(s.none)
	}
}

// wait waits for the goroutines of end.
func (s *stalledOpens) wait() {
	s.mu.Lock()
	if s.none == nil {
		if s.none = make(chan struct{}); s.closing == 0 {
			close(s.none)
		}
	}
	s.mu.Unlock()
	<-s.none
}
