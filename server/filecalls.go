package server

import (
	"context"
	"log/slog"
	"path"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/vfs"
)

// call answers a LOCK, UNLOCK, SYNC, SETSIZE, STAT or LOOKUP. The receive loop answers those at once that do not wait
// for a file system, and workers the others.
//
// Source: [OP-116] [OP-118]
func (c *conn) call(o *op) {
	if st := o.refusedBy(o.file.open.IsDir()); st != ntstatus.Success {
		c.reply(o, st)
		return
	}
	switch o.h.Opcode {
	case wire.OpSync:
		o.queue = o.file.syncing
	case wire.OpSetSize:
		o.queue = o.file.writing
	case wire.OpStat:
		o.queue, o.need = o.file.reading, wire.StatInfoSize
		if c.fabric.buffers.take(o) {
			o.stat()
			c.answer(o)
		}
		return
	case wire.OpLookup:
		o.queue, o.need = o.file.reading, wire.StatInfoSize
		if !c.fabric.buffers.take(o) {
			return
		}
	default: // LOCK and UNLOCK
		if !o.file.open.LockBlocks() {
			o.lock()
			c.answer(o)
			return
		}
		o.queue = o.file.writing
	}
	c.jobs.Add(1)
	o.queue.push(o)
}

// refusedBy returns the status of a file call that its file does not have.
//
// Source: [OP-118]
func (o *op) refusedBy(dir bool) ntstatus.Status {
	switch o.h.Opcode {
	case wire.OpLookup:
		if !dir {
			return ntstatus.NotADirectory
		}
	case wire.OpLock, wire.OpUnlock, wire.OpSetSize:
		if dir {
			return ntstatus.InvalidDeviceRequest
		}
	}
	return ntstatus.Success
}

// read performs an operation of the readers. A worker calls it.
func (o *op) read() {
	switch o.h.Opcode {
	case wire.OpStat:
		o.stat()
	case wire.OpLookup:
		name := string(o.body())
		info, err := o.file.open.Lookup(name)
		o.auditLookup(name, err)
		o.describe(&info, err)
	default:
		o.readRest()
	}
}

// change performs an operation of the writers, and those that joined it. A worker calls it.
func (o *op) change() {
	switch o.h.Opcode {
	case wire.OpLock, wire.OpUnlock:
		o.lock()
	case wire.OpSetSize:
		o.setSize()
	default:
		o.writeJoined()
	}
}

// lock performs a LOCK or an UNLOCK.
//
// Source: [OP-116]
func (o *op) lock() {
	l := o.h.FileLock()
	r := vfs.Range{Off: l.Offset, Len: l.Length}
	if o.h.Opcode == wire.OpUnlock {
		o.called(o.file.open.UnlockOnce(r, l.Sequence))
		return
	}
	exclusive := o.h.Flags&wire.FlagShared == 0
	o.called(o.file.open.LockOnce(vfs.Lock{Range: r, Exclusive: exclusive}, l.Sequence))
}

// setSize performs a SETSIZE. If it was in progress when an earlier process died, it is not done again, because
// another client may have changed the size since. mayBegin does not apply: as in NT, locks do not protect the size.
//
// Source: [OP-112] [OP-116]
func (o *op) setSize() {
	if o.doubt != nil {
		o.called(ntstatus.RequestOutOfSequence)
		o.end()
		return
	}
	o.begin()
	o.called(o.file.open.Truncate(int64(o.h.Offset)))
	o.end()
}

// syncedWith reports whether one run performs both SYNCs. next came before the run begins.
func (o *op) syncedWith(next *op) bool { return o.file == next.file }

// sync performs a SYNC, and those that joined it. A worker calls it.
//
// Source: [OP-92f] [OP-116]
func (o *op) sync() {
	o.c.engine.count.syncs.Add(1)
	err := o.file.open.SyncFor(o.c.entry.number)
	for x := o; x != nil; x = o.after(x) {
		x.called(err)
	}
}

// auditLookup logs a LOOKUP as smbserver logs the open of a description over SMB, and a refusal if the access was denied.
func (o *op) auditLookup(name string, err error) {
	c, ctx := o.c, context.Background()
	st := final(err)
	if !c.log.Enabled(ctx, LevelAudit) || st != ntstatus.Success && st != ntstatus.AccessDenied {
		return
	}
	open := o.file.open
	attrs := []slog.Attr{
		slog.String("share", open.Share().Name), slog.String("path", path.Join(open.Path(), name)), slog.String("user", c.auth.lineage.User()),
	}
	event := "lookup"
	if err != nil {
		event, attrs = "lookup refused", append(attrs, slog.Any("error", err))
	}
	c.log.LogAttrs(ctx, LevelAudit, event, attrs...)
}

// stat performs a STAT, in the block of o.
//
// Source: [OP-116]
func (o *op) stat() {
	info, err := o.file.open.Stat()
	if err == nil && !o.file.open.Granted().Has(vfs.ReadAttributes) {
		err = ntstatus.AccessDenied
	}
	o.describe(&info, err)
}

// describe ends the work on a STAT or a LOOKUP with a description, in the block of o.
//
// Source: [OP-116] [OP-118]
func (o *op) describe(info *vfs.FileInfo, err error) {
	if err == nil {
		s := wire.StatInfo{
			Created: info.Created, Accessed: info.Accessed, Modified: info.Modified, Changed: info.Changed,
			AllocationSize: uint64(info.AllocationSize), Size: uint64(info.Size), ID: info.ID,
			Attributes: info.ReportedAttributes(), Links: max(info.Links, 1), DeletePending: info.DeletePending,
		}
		s.AppendTo(o.c.fabric.buffers.memory(o)[:0])
	}
	o.called(err)
	if err == nil {
		o.info, o.data.size = wire.StatInfoSize, wire.StatInfoSize
		o.sealData()
	}
}

// called ends the work on a file call.
func (o *op) called(err error) {
	o.status, o.info = final(err), 0
	o.count()
}

// countCall counts a file call, which is answered.
func (o *op) countCall() {
	o.c.engine.count.calls.Add(1)
	if o.status != ntstatus.Success {
		o.c.engine.count.callFailures.Add(1)
	}
}
