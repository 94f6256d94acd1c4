package smbserver

import (
	"sync"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/vfs"
)

// openLease is the lease or the oplock that an open asked for: the answer to its CREATE, and the way of
// its breaks to the client. Safe for concurrent use.
//
// Source: [MS-SMB2 3.3.1.10], [MS-SMB2 3.3.1.12]
type openLease struct {
	oplock  bool
	asked   smbwire.Lease // of a lease
	request vfs.LeaseRequest

	mu      sync.Mutex
	session *Session // nil for an orphan
	open    *open    // of session, or nil before it is made
	sealed  bool     // the client encrypts
	// answered: the response to the CREATE has been sent. Breaks before that wait in held.
	answered bool
	held     []vfs.LeaseBreak
}

// leaseOf returns the lease or oplock that a CREATE asks for, or nil. A server without leases ignores both. On a
// connection without leases the context of a lease is ignored, and a lease without a context is none.
//
// Source: [MS-SMB2 3.3.5.9], [MS-SMB2 3.3.5.9.8], [MS-SMB2 3.3.5.9.11]
func (r *request) leaseOf(q *smbwire.CreateRequest) (*openLease, error) {
	if r.conn.srv.cfg.Leases == LeasesOff {
		return nil, nil
	}
	l := &openLease{session: r.session, sealed: r.encrypted != nil}
	switch q.OplockLevel {
	case smbwire.OplockLevelII, smbwire.OplockExclusive, smbwire.OplockBatch:
		l.oplock = true
		l.request = vfs.LeaseRequest{Oplock: true, State: stateOfLevel(q.OplockLevel)}
	case smbwire.OplockLease:
		found, err := l.decode(q.Contexts, r.conn.agreed.dialect)
		if err != nil || !found || r.conn.agreed.caps&smbwire.CapLeasing == 0 {
			return nil, err
		}
		key := vfs.LeaseKey{Client: r.conn.agreed.client.GUID, Key: l.asked.Key}
		l.request = vfs.LeaseRequest{
			Key: key, State: stateOfLease(l.asked.State), V2: l.asked.V2, Epoch: l.asked.Epoch,
			Directories: r.conn.agreed.caps&smbwire.CapDirectoryLeasing != 0,
		}
		if l.parented() {
			l.request.Parent = &vfs.LeaseKey{Client: key.Client, Key: l.asked.ParentKey}
		}
	default:
		return nil, nil
	}
	l.request.Broken = l.broken
	return l, nil
}

// decode decodes the first context of a lease. Version 2 needs dialect 3.0.
func (l *openLease) decode(list []smbwire.CreateContext, dialect uint16) (found bool, err error) {
	for _, x := range list {
		if x.Name != smbwire.CreateContextLease {
			continue
		}
		l.asked, err = smbwire.DecodeLease(x.Data)
		return err == nil && (!l.asked.V2 || dialect >= smbwire.Dialect300), err
	}
	return false, nil
}

// vfs returns the request for the file layer. Of no lease it is nil.
func (l *openLease) vfs() *vfs.LeaseRequest {
	if l == nil {
		return nil
	}
	return &l.request
}

// stateOfLevel returns the state of an oplock, and levelOfState the level of the oplock with a state.
//
// Source: [MS-FSA 2.1.5.18]
func stateOfLevel(level uint8) vfs.LeaseState {
	switch level {
	case smbwire.OplockLevelII:
		return vfs.LeaseRead
	case smbwire.OplockExclusive:
		return vfs.LeaseRead | vfs.LeaseWrite
	case smbwire.OplockBatch:
		return vfs.LeaseRead | vfs.LeaseWrite | vfs.LeaseHandle
	}
	return 0
}

func levelOfState(s vfs.LeaseState) uint8 {
	switch {
	case s&vfs.LeaseHandle != 0:
		return smbwire.OplockBatch
	case s&vfs.LeaseWrite != 0:
		return smbwire.OplockExclusive
	case s != 0:
		return smbwire.OplockLevelII
	}
	return smbwire.OplockNone
}

// stateOfLease returns the state of a lease, without undefined bits: the parts have the same values.
func stateOfLease(s uint32) vfs.LeaseState {
	return vfs.LeaseState(s & (smbwire.LeaseRead | smbwire.LeaseHandle | smbwire.LeaseWrite))
}

// parented reports whether the request has the key of the lease of the directory.
func (l *openLease) parented() bool {
	return l.asked.V2 && l.asked.Flags&smbwire.LeaseParentKeySet != 0
}

// answer puts the lease of an open into the response to its CREATE. A directory may have one of version 2, for a client
// that knows them.
//
// Source: [MS-SMB2 2.2.14.2.10], [MS-SMB2 2.2.14.2.11]
func (l *openLease) answer(file *vfs.Open, resp *smbwire.CreateResponse) {
	if l == nil || file.IsDir() && (l.oplock || !l.asked.V2 || !l.request.Directories) {
		return
	}
	now := file.Lease()
	if l.oplock {
		resp.OplockLevel = levelOfState(now.State)
		return
	}
	is := smbwire.Lease{Key: l.asked.Key, State: uint32(now.State), V2: now.V2}
	if now.Breaking {
		is.Flags |= smbwire.LeaseBreaking
	}
	if is.V2 {
		is.Epoch = now.Epoch
		if l.parented() {
			is.Flags |= smbwire.LeaseParentKeySet
			is.ParentKey = l.asked.ParentKey
		}
	}
	resp.OplockLevel = smbwire.OplockLease
	resp.Contexts = append(resp.Contexts, smbwire.CreateContext{Name: smbwire.CreateContextLease, Data: is.AppendTo(nil)})
}

// keyed reports whether the open has a lease, and no oplock.
func (l *openLease) keyed() bool { return l != nil && !l.oplock }

// contextOf returns the context of a lease in a CREATE; false for none that can be decoded.
func contextOf(q *smbwire.CreateRequest) (asked smbwire.Lease, found bool) {
	for _, x := range q.Contexts {
		if x.Name == smbwire.CreateContextLease {
			l, err := smbwire.DecodeLease(x.Data)
			return l, err == nil
		}
	}
	return smbwire.Lease{}, false
}

// reclaims returns the status for a CREATE that takes over an orphan with this lease, which may be nil. The
// CREATE names a lease by its key and its version, and then the name of the file too; the rest of it does not
// matter.
//
// Source: [MS-SMB2 3.3.5.9.7], [MS-SMB2 3.3.5.9.12]
func (l *openLease) reclaims(file *vfs.Open, q *smbwire.CreateRequest) ntstatus.Status {
	asked, found := contextOf(q)
	switch {
	case !l.keyed() && found, l.keyed() && (!found || asked.Key != l.asked.Key || asked.V2 != file.Lease().V2):
		return ntstatus.ObjectNameNotFound
	case !l.keyed():
		return ntstatus.Success
	}
	name, err := smbwire.DecodeUTF16(q.Name)
	path, ok := fromWire(name)
	if err != nil || !ok || path != file.Path() {
		return ntstatus.InvalidParameter
	}
	return ntstatus.Success
}

// replays reports whether a CREATE that the client repeats asks for the lease, which may be nil, as the first one
// did.
//
// Source: [MS-SMB2 3.3.5.9.10]
func (l *openLease) replays(q *smbwire.CreateRequest) bool {
	asked, found := contextOf(q)
	found = found && q.OplockLevel == smbwire.OplockLease
	return found == l.keyed() && (!found || asked.Key == l.asked.Key)
}

// repeatsHandle reports whether a CREATE that the client repeats asks for LeaseHandle too, or for a lease, as the
// first one did. A persistent handle needs none.
func (l *openLease) repeatsHandle(q *smbwire.CreateRequest) bool {
	return l == nil || !l.oplock || q.OplockLevel == smbwire.OplockBatch
}

// made sets the open, which has been made.
func (l *openLease) made(o *open) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = o
}

// moved gives the breaks to an open of a session, whose client encrypts if sealed is set. For an orphan both are
// nil.
func (l *openLease) moved(s *Session, o *open, sealed bool) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session, l.open, l.sealed, l.answered, l.held = s, o, sealed, false, nil
}

// sent says that the response to the CREATE has been sent: the client knows the lease, and can be asked for
// it.
func (l *openLease) sent() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered = true
	for _, b := range l.held {
		l.notifyLocked(b)
	}
	l.held = nil
}

// broken sends a break to the client, after the response to the CREATE. The end of a session closes its opens, or
// makes them orphans.
//
// Source: [MS-SMB2 3.3.4.6], [MS-SMB2 3.3.4.7]
func (l *openLease) broken(b vfs.LeaseBreak) vfs.LeaseReach {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.session == nil:
		return vfs.LeaseAway
	case !l.session.valid():
		return vfs.LeaseEnding
	case !l.answered:
		l.held = append(l.held, b)
		return vfs.LeaseReached
	}
	return l.notifyLocked(b)
}

// notifyLocked queues the notification of a break. Precondition: mu is held, and the open has a session.
//
// Source: [MS-SMB2 2.2.23.1], [MS-SMB2 2.2.23.2]
func (l *openLease) notifyLocked(b vfs.LeaseBreak) vfs.LeaseReach {
	n := notice{session: l.session, sealed: l.sealed}
	if l.oplock {
		q := smbwire.OplockBreak{
			OplockLevel: levelOfState(b.To), FileID: smbwire.FileID{Persistent: l.open.persistent, Volatile: l.open.id},
		}
		n.body = q.AppendTo(nil)
	} else {
		q := smbwire.LeaseBreak{LeaseKey: l.asked.Key, CurrentState: uint32(b.From), NewState: uint32(b.To)}
		if b.Ack {
			q.Flags = smbwire.LeaseBreakAckRequired
		}
		if b.V2 {
			q.NewEpoch = b.Epoch
		}
		n.body = q.AppendTo(nil)
	}
	if !l.session.conn.notices.add(n) {
		return vfs.LeaseEnding // with the connection
	}
	return vfs.LeaseReached
}
