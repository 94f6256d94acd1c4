package crash

// Serving are the points that a server comes to while it serves clients, which open, create, lock, write, sync,
// rename, close, remove and reclaim files.
var Serving = []Point{
	{Name: "create: no file yet", File: "vfs/create.go", Line: "o.handle, err = c.share.Backend.Create("},
	{Name: "create: a file, and no open", File: "vfs/create.go", Line: "o.handle, err = c.share.Backend.Create(", After: true},
	{Name: "open: no record", File: "internal/smb/smbserver/keptfile.go", Line: "err := k.write(d, s)", Most: 9},
	{Name: "open: no answer", File: "internal/smb/smbserver/keptfile.go", Line: "k.failing.Store(false)", Most: 9},
	{Name: "lock: no record", File: "internal/smb/smbserver/lock.go", Line: "d.kept.lock(locks, q)", Most: 9},
	{Name: "lock: no answer", File: "internal/smb/smbserver/lock.go", Line: "d.kept.lock(locks, q)", After: true, Most: 9},
	{Name: "unlock: a record", File: "internal/smb/smbserver/keptopen.go", Line: "k.removeLocked(ranges, q); err != nil", Most: 9},
	{Name: "unlock: no record, and a lock", File: "internal/smb/smbserver/keptopen.go", Line: "return release(ranges...)", Most: 9},
	{Name: "lock or unlock: no answer", File: "internal/smb/smbserver/lock.go", Line: "o.durable.locks.done(q)", Most: 9},
	{Name: "lock over RDMA: no answer", File: "server/filecalls.go", Line: "o.called(o.file.open.LockOnce(", After: true, Most: 9},
	{Name: "unlock over RDMA: no answer", File: "server/filecalls.go", Line: "o.called(o.file.open.UnlockOnce(", After: true, Most: 9},
	{Name: "write: nothing written", File: "vfs/io.go", Line: "o.handle.WriteAt(p, off,", Most: 99},
	{Name: "write: no answer", File: "vfs/io.go", Line: "o.handle.WriteAt(p, off,", After: true, Most: 99},
	{Name: "writes joined: nothing written", File: "vfs/io.go", Line: "o.handle.WriteVec(pieces, off,"},
	{Name: "writes joined: no result", File: "vfs/io.go", Line: "o.handle.WriteVec(pieces, off,", After: true},
	{Name: "write over RDMA: no record", File: "server/writerecords.go", Line: "o.slot = log.Begin(", Most: 99},
	{Name: "write over RDMA: a part of a record", File: "internal/writelog/record.go", Line: "s[i] = x[i]", Most: 99},
	{Name: "write over RDMA: a record", File: "internal/writelog/record.go", Line: "atomic.StoreUint64(&s[wordNumber], x[wordNumber])", After: true, Most: 99},
	WithoutResult,
	{Name: "write over RDMA: no answer", File: "server/dispatch.go", Line: "o.c.replay.record(", After: true, Most: 99},
	{Name: "sync: nothing synced", File: "vfs/io.go", Line: "err := o.handle.Sync()", Most: 9},
	{Name: "sync: no answer", File: "internal/smb/smbserver/rw.go", Line: "return r.resp.empty()", Most: 9},
	{Name: "sync over RDMA: no answer", File: "server/filecalls.go", Line: "err := o.file.open.SyncFor(", After: true, Most: 9},
	{Name: "rename or remove: recorded, not done", File: "internal/smb/smbserver/keptfile.go", Line: "return do()", Most: 6},
	{Name: "rename: both names recorded, renamed", File: "internal/smb/smbserver/keptfile.go", Line: "func(r *openRecord) { r.other = path }", After: true, Most: 3},
	{Name: "remove: pending", File: "internal/smb/smbserver/keptfile.go", Line: "func(r *openRecord) { r.deleting = on }", After: true, Most: 3},
	{Name: "close: a record", File: "internal/smb/smbserver/keptfile.go", Line: "late, err := d.kept.end(", Most: 3},
	{Name: "close: no record, and an open", File: "vfs/close.go", Line: "c.open.revoke.run()", After: true, Most: 9},
	{Name: "close: nothing deleted", File: "vfs/close.go", Line: "d.share.Backend.Remove(d.path, n.id, d.dir))", Most: 3},
	{Name: "close: deleted", File: "vfs/close.go", Line: "d.share.Backend.Remove(d.path, n.id, d.dir))", After: true, Most: 3},
	{Name: "close: deleted, and a record", File: "internal/smb/smbserver/keptfile.go", Line: "k.report(d, k.state.Drop(d.id))", Most: 3},
	{Name: "close: no answer", File: "internal/smb/smbserver/rw.go", Line: "if err := o.close(); err != nil {", Most: 3},
	{Name: "reclaim: an orphan", File: "internal/smb/smbserver/createdurable.go", Line: "t.claim(d, r.session, o); st != ", Most: 9},
	{Name: "reclaim: no handle", File: "internal/smb/smbserver/createdurable.go", Line: "r.session.add(o); st != ", Most: 9},
	{Name: "reclaim: no answer", File: "internal/smb/smbserver/createdurable.go", Line: "return again(r, o, q, action)", Most: 9},
	{Name: "state: a frame without its first bytes", File: "internal/statefile/store_unsafe.go", Line: "first := *(*[frameCommit]byte)(p)", Most: 99},
	{Name: "state: a whole frame", File: "internal/statefile/store_unsafe.go", Line: "atomic.StoreUint64(", After: true, Most: 99},
	{Name: "state: a frame behind the end in the header", File: "internal/statefile/logfile.go", Line: "_ = l.file.mark(end)", Most: 99},
	{Name: "state: space without a mapping", File: "internal/statefile/file_linux.go", Line: "return f.remap(from, to)", Most: 3},
	{Name: "state: a file without a header", File: "internal/statefile/logfile.go", Line: "l.append(headerOf(gen), chunk); err != nil"},
	{Name: "compaction: a new file", File: "internal/statefile/compact.go", Line: "l.old, l.current = newCompaction(l.current), f"},
	{Name: "compaction: a part read", File: "internal/statefile/compact.go", Line: "l.appendLocked(&c.batch); err != nil", Most: 3},
	{Name: "compaction: all copied", File: "internal/statefile/compact.go", Line: "l.dir.remove(nameOf(c.file.gen)); err != nil"},
	{Name: "compaction: the old file removed", File: "internal/statefile/compact.go", Line: "l.old = nil"},
}

// WithoutResult is the point at which a write over RDMA is done, and has no result.
var WithoutResult = Point{Name: "write over RDMA: no result", File: "server/writerecords.go", Line: "o.c.replay.log.End(o.slot", Most: 99}

// Redoing are the points that a server comes to if the server before it died with a write in doubt, and the client sends that
// again.
var Redoing = []Point{
	{Name: "AUTH: the log of the next connection is made", File: "internal/writelog/log.go", Line: "os.Rename(u.made, u.path); err != nil"},
	{Name: "AUTH: two logs", File: "server/writerecords.go", Line: "w.check(k.log.Remove())"},
	{Name: "AUTH: one log", File: "server/writerecords.go", Line: "w.check(k.log.Remove())", After: true},
	{Name: "write again: not done again", File: "server/writerecords.go", Line: "d.open.Redo(d.write, p, d.Off); err == nil"},
	{Name: "write again: no result", File: "server/writerecords.go", Line: "p.log.End(p.slot,"},
}

// Starting are the points that a server comes to at its start, while it restores the opens of another process.
var Starting = []Point{
	{Name: "restore: the state read", File: "internal/smb/smbserver/restore.go", Line: "s.openIDs.Store(firstOpenID(saved))"},
	{Name: "restore: an open", File: "internal/smb/smbserver/restore.go", Line: "r.restored++", Most: 9},
	{Name: "restore: all opens", File: "internal/smb/smbserver/restore.go", Line: "r.finish()"},
	{Name: "restore: the end", File: "internal/smb/smbserver/restore.go", Line: "s.lineages.restored = r.restored", After: true},
}

// Making are the points that a server comes to while it makes the directory of its state.
var Making = []Point{
	{Name: "state: a boot id of another name", File: "internal/statefile/directory.go", Line: "d.root.Rename(newName, name); err != nil"},
	{Name: "state: no log", File: "internal/statefile/load.go", Line: "f, err := createFile(l.dir, 1, l.sizes.chunk)"},
	{Name: "state: an empty log", File: "internal/statefile/load.go", Line: "f, err := createFile(l.dir, 1, l.sizes.chunk)", After: true},
}

// SmallLog makes the files of the state small, so that they are compacted all the time.
var SmallLog = Line{
	File: "internal/statefile/log.go", Old: "var defaultSizes = sizes{", New: "var defaultSizes = sizes{chunk: 4096, least: 4096, quantum: 256}",
}
