package server

import (
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
)

// register answers a REGISTER: it makes an open of the client's SMB session a
// file of this connection. What the client says of the open's flags is not
// asked.
//
// Source: [LWIO §File Registration] [OP-50i] [OP-52] [OP-52b] [OP-56] [OP-57] [OP-59] [LWIO claim 10] [LWIO claim 11]
func (c *conn) register(o *op) {
	f, status := c.newFile(o)
	if status != ntstatus.Success {
		c.reply(o, status)
		return
	}
	c.e.count.registrations.Add(1)
	o.status, o.info = ntstatus.Success, uint32(f.id)
	c.answer(o)
}

// newFile finds the open and enters it.
func (c *conn) newFile(o *op) (*fid, ntstatus.Status) {
	p, err := wire.DecodeFIDParams(o.body())
	if err != nil {
		return nil, final(err)
	}
	if !equal(p.SessionID[:], c.sessionID[:]) {
		return nil, ntstatus.AccessDenied
	}
	open, err := c.e.fs.ByResumeKey(p.ResumeKey, c.sess)
	if err != nil {
		return nil, final(err)
	}
	if open.IsDir() {
		return nil, ntstatus.FileIsADirectory
	}
	granted := open.Granted()
	f := &fid{
		open: open, unbuffered: open.Options()&noBuffering != 0,
		canRead: granted&mayRead != 0, canWrite: granted&mayWrite != 0,
		traffic: c.e.shares.get(open.Share().Name),
	}
	if open.Acquire() != nil {
		return nil, ntstatus.ObjectNameNotFound // as if it were closed already
	}
	defer open.Release()
	f.join(c)
	f.attach(c, open)
	c.mu.Lock()
	added := c.fids.add(f)
	if !added {
		f.retireLocked(c)
	}
	c.mu.Unlock()
	if !added {
		return nil, ntstatus.TooManyOpenedFiles
	}
	c.e.count.files.Add(1)
	revoke := open.OnRevoke(func() { c.revoke(f) })
	stall := open.OnStall(func() { c.stalls(f) })
	f.unhook = func() { revoke(); stall() }
	c.mu.Lock()
	alive := c.fids.get(f.id) == f
	c.mu.Unlock()
	if !alive {
		f.unhook()
		return nil, ntstatus.ObjectNameNotFound
	}
	return f, ntstatus.Success
}

// revoke drops a file because SMB closes its open. What is in flight goes on.
//
// Source: [OP-58] [OP-58b]
func (c *conn) revoke(f *fid) {
	c.mu.Lock()
	removed := c.fids.remove(f)
	if removed {
		f.retireLocked(c)
	}
	c.mu.Unlock()
	if removed {
		c.e.count.files.Add(-1)
	}
}

// stalls cuts the connection if it is what holds up the close of f's open: by I/O
// that is being done, or by a client that does not take the outcome.
//
// Source: [OP-58b]
func (c *conn) stalls(f *fid) {
	c.mu.Lock()
	mine := f.held > 0
	c.mu.Unlock()
	if mine {
		c.cut(errRevokeStall)
	}
}

// closeFile answers a CLOSE: the file takes no new I/O from now on, and the
// answer goes out behind those of what is in flight. The SMB open stays.
//
// Source: [LWIO §Close] [OP-94d] [OP-94e]
func (c *conn) closeFile(o *op) {
	c.mu.Lock()
	f := c.fids.get(o.h.Fid)
	if f == nil {
		c.mu.Unlock()
		c.reply(o, ntstatus.FileClosed)
		return
	}
	c.fids.remove(f)
	f.retireLocked(c)
	waits := f.inFlight > 0
	if waits {
		f.closer = o
	}
	c.mu.Unlock()
	f.unhook()
	c.e.count.files.Add(-1)
	c.e.count.closes.Add(1)
	if !waits {
		c.reply(o, ntstatus.Success)
	}
}

// cancelFile answers a CANCEL: I/O of the file that nobody has begun with ends
// as cancelled, before the answer. The file stays, and takes new I/O.
//
// Source: [LWIO §Cancel] [OP-7] [OP-94b] [OP-94c]
func (c *conn) cancelFile(o *op) {
	c.mu.Lock()
	f := c.fids.get(o.h.Fid)
	c.mu.Unlock()
	if f == nil {
		c.reply(o, ntstatus.FileClosed)
		return
	}
	for _, other := range c.ops {
		if other.file == f && c.recall(other) {
			c.e.count.cancelled.Add(1)
			c.reply(other, ntstatus.Cancelled)
		}
	}
	c.e.count.cancels.Add(1)
	c.reply(o, ntstatus.Success)
}

// saturated is the count of the header's Credits that may stand for more.
const saturated = 0xFF

// interrupt answers an INTERRUPT, by which a client that polls goes to sleep:
// at once if it has missed a completion, else with the next one.
//
// Source: [LWIO §Wakeup] [OP-93a] [OP-93c] [OP-93e] [OP-93f] [LWIO claim 21]
func (c *conn) interrupt(o *op) {
	c.flush() // what is answered counts as complete
	c.mu.Lock()
	p := int(o.h.Credits)
	switch {
	case c.armed != nil:
		c.mu.Unlock()
		c.reply(o, ntstatus.DeviceBusy)
		return
	case p == saturated && c.completed, p != saturated && c.pending < p:
		c.wakeLocked(o)
		c.postOutbox()
		return
	}
	c.armed = o
	c.mu.Unlock()
}

// wakeLocked puts the answer to an INTERRUPT into the outbox.
func (c *conn) wakeLocked(o *op) {
	c.completed = false
	c.e.count.wakeups.Add(1)
	c.outbox.push(o)
}
