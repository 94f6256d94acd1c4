package vfs

// changed reports the changes of one operation to the watches, and begins the breaks of the leases of the directories
// whose entries have changed. by is the lease of a directory that stays, or nil. The caller sends the notices when it
// holds no mutex.
//
// Source: [MS-FSA 2.1.4.12], [MS-SMB2 3.3.1.4]
func (s *share) changed(by *LeaseKey, changes ...change) leaseNotices {
	s.watches.report(changes...)
	return s.breakParents(by, changes...)
}

// breakParents is changed for the leases alone. It is called after the changes: a client whose lease is granted later
// lists the directory later too. It goes by the directory, and not by its name, because other shares and links may lead
// to it. Without leases of directories it costs one atomic load.
func (s *share) breakParents(by *LeaseKey, changes ...change) (notices leaseNotices) {
	t := s.table
	if t.leases.directories.Load() == 0 {
		return nil
	}
	var own *lease
	if by != nil {
		own = t.leases.find(*by)
	}
	for i, c := range changes {
		dir, name := split(c.path)
		if name == "" || i > 0 && sameParent(c, changes[i-1]) {
			continue
		}
		info, err := s.Backend.Stat(dir)
		if err != nil {
			continue // removed by a process of the host
		}
		t.mu.Lock()
		f := t.nodes[info.Node()].fileLeases()
		t.mu.Unlock()
		if f != nil && f.now.Load() != nil {
			_, more := t.leases.contend(f, own, useChange, false)
			notices = append(notices, more...)
		}
	}
	return notices
}

// sameParent reports whether two changes are of entries of the same directory.
func sameParent(a, b change) bool {
	x, _ := split(a.path)
	y, _ := split(b.path)
	return x == y
}

// closedBy returns the lease of a directory that stays when the last open of the file, which has named the lease by,
// removes the name: both opens have named the same one, or it is nil.
func (d *deletion) closedBy(by *LeaseKey) *LeaseKey {
	if by == nil || d.parent == nil || *by != *d.parent {
		return nil
	}
	return by
}
