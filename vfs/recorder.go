package vfs

// Recorder does the calls of an open that the protocol which made the open keeps records of: a lock that outlives the
// connection, and a failure of the disk that the client has not seen. Another protocol that uses the open calls it
// by LockOnce, UnlockOnce and SyncFor, so the rules are the same for both. Safe for concurrent use.
//
// Source: [OP-116]
type Recorder interface {
	// Lock locks a range, without waiting. A request with the sequence of one that was done is not done again.
	Lock(l Lock, sequence uint32) error
	// Unlock ends one lock of a range, as Lock.
	Unlock(r Range, sequence uint32) error
	// Sync is Open.Sync for a connection of the other protocol. A failure of the disk is repeated on another
	// connection, because its answer may be lost, until a later call on the same one shows that the client has it.
	Sync(connection uint64) error
	// Blocks reports whether Lock and Unlock may wait for a file system, to which they write records.
	Blocks() bool
}

// SetRecorder sets the recorder of the open. It is called before another protocol uses the open.
func (o *Open) SetRecorder(k Recorder) { o.recorder.Store(&k) }

// recordedBy returns the recorder, or nil.
func (o *Open) recordedBy() Recorder {
	if k := o.recorder.Load(); k != nil {
		return *k
	}
	return nil
}

// LockOnce is TryLock of one range, for a protocol that did not make the open. sequence names the request among
// those of the open for its recorder, and 0 is no name.
//
// Errors: as TryLock; the errors of the recorder's records, with which nothing is locked.
//
// Source: [OP-116]
func (o *Open) LockOnce(l Lock, sequence uint32) error {
	if k := o.recordedBy(); k != nil {
		return k.Lock(l, sequence)
	}
	return o.TryLock(l)
}

// UnlockOnce is Unlock of one range, as LockOnce.
//
// Source: [OP-116]
func (o *Open) UnlockOnce(r Range, sequence uint32) error {
	if k := o.recordedBy(); k != nil {
		return k.Unlock(r, sequence)
	}
	return o.Unlock(r)
}

// SyncFor is Sync, for a connection of a protocol that did not make the open. connection names it among all of
// that protocol.
//
// Source: [OP-92f] [OP-116]
func (o *Open) SyncFor(connection uint64) error {
	if k := o.recordedBy(); k != nil {
		return k.Sync(connection)
	}
	return o.Sync()
}

// LockBlocks reports whether LockOnce and UnlockOnce may wait for a file system.
func (o *Open) LockBlocks() bool {
	k := o.recordedBy()
	return k != nil && k.Blocks()
}
