package server

import (
	"lwio/internal/account"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
)

// registrations are the registered files of a connection. They answer REGISTER, CLOSE and CANCEL,
// in the receive loop, and drop a file when SMB closes its open.
//
// Source: [LWIO §File Registration]
type registrations struct {
	fileTable
	c *conn
}

// register answers a REGISTER: it makes an open of the client's lineage a file of this
// connection. It ignores the flags of the open in the message. If the lineage has ended, the connection
// ends without an answer: a later session of the client owns its opens, and a refusal would be final.
//
// Source: [LWIO §File Registration] [OP-50i] [OP-52] [OP-52b] [OP-56] [OP-57] [OP-59] [OP-114] [LWIO claim 10] [LWIO claim 11]
func (r *registrations) register(o *op) error {
	c := r.c
	f, status := r.newFile(o)
	if status != ntstatus.Success {
		if err := c.auth.lineageEnded(); err != nil {
			return err
		}
		c.reply(o, status)
		return nil
	}
	c.engine.count.registrations.Add(1)
	o.status, o.info = ntstatus.Success, uint32(f.id)
	c.answer(o)
	return nil
}

// newFile finds the open and adds it to the file table.
func (r *registrations) newFile(o *op) (*registeredFile, ntstatus.Status) {
	c := r.c
	p, err := wire.DecodeFIDParams(o.body())
	if err != nil {
		return nil, final(err)
	}
	if !equal(p.SessionID[:], c.auth.sessionID[:]) {
		return nil, ntstatus.AccessDenied
	}
	open, err := c.engine.fs.ByResumeKey(p.ResumeKey, c.auth.lineage)
	if err != nil {
		return nil, final(err)
	}
	if open.IsDir() && !c.auth.messages.Names {
		return nil, ntstatus.FileIsADirectory
	}
	if !c.confidential() && (c.engine.encryption == EncryptionRequired || open.Share().RequireEncryption) {
		c.engine.noise.Warn(c.log, "lwio: file refused: its share requires encryption, and the connection is not sealed", "share", open.Share().Name)
		return nil, ntstatus.AccessDenied
	}
	granted := open.Granted()
	if open.IsDir() {
		granted = 0 // its bits have other meanings
	}
	f := &registeredFile{
		open: open, unbuffered: open.Options()&noBuffering != 0,
		canRead: granted&mayRead != 0, canWrite: granted&mayWrite != 0,
		traffic: c.engine.shares.get(open.Share().Name), jobs: &c.jobs,
	}
	if open.Acquire() != nil {
		return nil, ntstatus.ObjectNameNotFound // as for a closed open
	}
	if f.sum, f.user = c.engine.registered, c.auth.lineage.User(); !f.sum.Take(f.user, 1, account.Last) {
		open.Release()
		return nil, ntstatus.TooManyOpenedFiles
	}
	f.join(c.engine, c.fabric.buffers)
	f.attach(c, open)
	f.stopStall = open.OnStall(func() { r.stalls(f) }) // before add: afterwards f can end at any time
	if !r.add(f) {
		f.end()
		return nil, ntstatus.TooManyOpenedFiles
	}
	c.engine.count.files.Add(1)
	stopRevoke, stopMove := open.OnRevoke(func() { r.revoke(f) }), open.Ownership().OnTransfer(func() { r.revoke(f) })
	f.stopRevoke = func() { stopRevoke(); stopMove() }
	if open.Ownership().Owner() != c.auth.lineage {
		r.revoke(f)
	}
	if r.get(f.id) != f {
		f.stopRevoke()
		return nil, ntstatus.ObjectNameNotFound
	}
	return f, ntstatus.Success
}

// revoke drops a file because SMB closes its open, or gives it to another client. I/O in flight goes on.
//
// Source: [OP-58] [OP-58b]
func (r *registrations) revoke(f *registeredFile) {
	if !r.remove(f, &r.c.jobs) {
		return
	}
	defer r.c.jobs.Done()
	f.release()
	r.c.engine.count.files.Add(-1)
}

// stalls cuts the connection if its I/O delays the close of f's open. The I/O is in progress, or the
// client does not receive its answer.
//
// Source: [OP-58b]
func (r *registrations) stalls(f *registeredFile) {
	if f.refs.Load() > 0 {
		r.c.cut(errRevokeStall)
	}
}

// close answers a CLOSE: the file accepts no more I/O. The answer follows the answers of the I/O in
// flight. The SMB open stays.
//
// Source: [LWIO §Close] [OP-94d] [OP-94e]
func (r *registrations) close(o *op) {
	c := r.c
	f := r.get(o.h.Fid)
	if f == nil || !r.remove(f, &c.jobs) {
		c.reply(o, ntstatus.FileClosed)
		return
	}
	defer c.jobs.Done()
	f.stopRevoke()
	c.engine.count.files.Add(-1)
	c.engine.count.closes.Add(1)
	f.closer = o
	if f.release() == o {
		c.reply(o, ntstatus.Success)
	}
}

// cancel answers a CANCEL. I/O of the file that no worker has started ends as cancelled, before the
// answer. The file stays and accepts new I/O.
//
// Source: [LWIO §Cancel] [OP-7] [OP-94b] [OP-94c]
func (r *registrations) cancel(o *op) {
	c := r.c
	f := r.get(o.h.Fid)
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
