package server

import (
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
)

// register answers a REGISTER: it makes an open of the client's SMB session a file of this
// connection. The flags of the open that the client names are ignored.
//
// Source: [LWIO §File Registration] [OP-50i] [OP-52] [OP-52b] [OP-56] [OP-57] [OP-59] [LWIO claim 10] [LWIO claim 11]
func (c *conn) register(o *op) {
	f, status := c.newFile(o)
	if status != ntstatus.Success {
		c.reply(o, status)
		return
	}
	c.engine.count.registrations.Add(1)
	o.status, o.info = ntstatus.Success, uint32(f.id)
	c.answer(o)
}

// newFile finds the open and adds it to the file table.
func (c *conn) newFile(o *op) (*registeredFile, ntstatus.Status) {
	p, err := wire.DecodeFIDParams(o.body())
	if err != nil {
		return nil, final(err)
	}
	if !equal(p.SessionID[:], c.auth.sessionID[:]) {
		return nil, ntstatus.AccessDenied
	}
	open, err := c.engine.fs.ByResumeKey(p.ResumeKey, c.auth.session)
	if err != nil {
		return nil, final(err)
	}
	if open.IsDir() {
		return nil, ntstatus.FileIsADirectory
	}
	granted := open.Granted()
	f := &registeredFile{
		open: open, unbuffered: open.Options()&noBuffering != 0,
		canRead: granted&mayRead != 0, canWrite: granted&mayWrite != 0,
		traffic: c.engine.shares.get(open.Share().Name),
	}
	if open.Acquire() != nil {
		return nil, ntstatus.ObjectNameNotFound // as if it were closed already
	}
	defer open.Release()
	f.join(c.engine, c.fabric.buffers)
	f.attach(c, open)
	if !c.files.add(f) {
		f.detach()
		return nil, ntstatus.TooManyOpenedFiles
	}
	c.engine.count.files.Add(1)
	revoke := open.OnRevoke(func() { c.revoke(f) })
	stall := open.OnStall(func() { c.stalls(f) })
	f.unhook = func() { revoke(); stall() }
	if c.files.get(f.id) != f {
		f.unhook()
		return nil, ntstatus.ObjectNameNotFound
	}
	return f, ntstatus.Success
}

// revoke drops a file because SMB closes its open. I/O in flight goes on.
//
// Source: [OP-58] [OP-58b]
func (c *conn) revoke(f *registeredFile) {
	if c.files.remove(f) {
		f.unref()
		c.engine.count.files.Add(-1)
	}
}

// stalls cuts the connection if its I/O holds up the close of f's open: I/O that is not
// done, or whose client does not take the answer.
//
// Source: [OP-58b]
func (c *conn) stalls(f *registeredFile) {
	if f.refs.Load() > 0 {
		c.cut(errRevokeStall)
	}
}

// closeFile answers a CLOSE: the file takes no new I/O from now on, and the answer follows
// those of the I/O in flight. The SMB open stays.
//
// Source: [LWIO §Close] [OP-94d] [OP-94e]
func (c *conn) closeFile(o *op) {
	f := c.files.get(o.h.Fid)
	if f == nil || !c.files.remove(f) {
		c.reply(o, ntstatus.FileClosed)
		return
	}
	f.unhook()
	c.engine.count.files.Add(-1)
	c.engine.count.closes.Add(1)
	f.closer = o
	if f.unref() == o {
		c.reply(o, ntstatus.Success)
	}
}

// cancelFile answers a CANCEL: I/O of the file that no worker has started ends as
// cancelled, before the answer. The file stays, and takes new I/O.
//
// Source: [LWIO §Cancel] [OP-7] [OP-94b] [OP-94c]
func (c *conn) cancelFile(o *op) {
	f := c.files.get(o.h.Fid)
	if f == nil {
		c.reply(o, ntstatus.FileClosed)
		return
	}
	for _, other := range c.ops.all {
		if other.file == f && other.recall() {
			c.engine.count.cancelled.Add(1)
			c.reply(other, ntstatus.Cancelled)
		}
	}
	c.engine.count.cancels.Add(1)
	c.reply(o, ntstatus.Success)
}

// interrupt answers an INTERRUPT, by which a polling client goes to sleep: at once if it
// has missed a completion, else with the next one.
//
// Source: [LWIO §Wakeup] [OP-93a] [OP-93c] [OP-93e] [OP-93f] [LWIO claim 21]
func (c *conn) interrupt(o *op) {
	c.flush() // answers at hand count as completions
	if c.send.interrupt(o, int(o.h.Credits)) {
		c.reply(o, ntstatus.DeviceBusy)
	}
}
