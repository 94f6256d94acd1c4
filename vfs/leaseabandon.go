package vfs

// abandonedOpen is an orphan that lasts as long as its lease has LeaseHandle. leaseTable.mu guards the
// fields.
type abandonedOpen struct {
	lost   func()
	called bool // lost, or about to be
}

// abandon notes an orphan. It reports false if the lease cannot keep it.
func (c *openLease) abandon(o *Open, lost func()) bool {
	l := c.lease
	if l == nil {
		return false
	}
	t := c.file.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.breaking || l.state&LeaseHandle == 0 || l.holders[o] == nil {
		return false
	}
	if l.abandoned == nil {
		l.abandoned = make(map[*Open]*abandonedOpen)
	}
	l.abandoned[o] = &abandonedOpen{lost: lost}
	return true
}

// keep ends the effect of abandon. It reports false if the open has lost its lease meanwhile.
func (c *openLease) keep(o *Open) bool {
	l := c.lease
	if l == nil {
		return true
	}
	t := c.file.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if x := l.abandoned[o]; x != nil && x.called {
		return false
	}
	delete(l.abandoned, o)
	return true
}

// loseLocked returns the functions of the orphans that last no longer than LeaseHandle, which the caller calls.
// Precondition: table.mu is held.
func (l *lease) loseLocked() (lost []func()) {
	for _, x := range l.abandoned {
		if !x.called {
			x.called = true
			lost = append(lost, x.lost)
		}
	}
	return lost
}

// lostLocked is loseLocked, if the lease has lost LeaseHandle. Precondition: table.mu is held.
func (l *lease) lostLocked() []func() {
	if l.state&LeaseHandle != 0 {
		return nil
	}
	return l.loseLocked()
}

// unreached handles a break that reaches no client. Orphans of the lease are closed, and the break ends with the
// last of them; without any the lease ends at once.
func (t *leaseTable) unreached(l *lease) {
	t.mu.Lock()
	if !l.breaking {
		t.mu.Unlock()
		return
	}
	lost := l.loseLocked()
	if l.unreached = len(l.abandoned) > 0; !l.unreached {
		l.revokeLocked()
	}
	t.mu.Unlock()
	callAll(lost)
}

// leftLocked ends the part of an open that is closed, and is no holder any more. If only orphans are left, no client
// acknowledges the present break. Precondition: table.mu is held.
func (l *lease) leftLocked(o *Open) {
	delete(l.abandoned, o)
	switch {
	case !l.breaking || len(l.holders) == 0:
	case len(l.abandoned) == len(l.holders):
		l.unreached = true
		callAll(l.loseLocked())
	case l.unreached && len(l.abandoned) == 0:
		callAll(l.revokeLocked())
	}
}

func callAll(list []func()) {
	for _, f := range list {
		f()
	}
}
