package vfs

// shareCounts counts the opens of a file with the right to read, write or delete. Other opens take no
// part in sharing.
//
// Source: [MS-FSA 2.1.5.1.2.2]
type shareCounts struct {
	opens, readers, writers, deleters     int
	sharedRead, sharedWrite, sharedDelete int
}

// conflicts reports whether an open with that access and mode conflicts with the counted opens.
func (c *shareCounts) conflicts(a Access, m ShareMode) bool {
	if !takesPart(a) {
		return false
	}
	return a&dataRead != 0 && c.sharedRead < c.opens ||
		a&dataWrite != 0 && c.sharedWrite < c.opens ||
		a&Delete != 0 && c.sharedDelete < c.opens ||
		c.readers > 0 && m&ShareRead == 0 ||
		c.writers > 0 && m&ShareWrite == 0 ||
		c.deleters > 0 && m&ShareDelete == 0
}

// add counts an open in (d = 1) or out (d = -1).
func (c *shareCounts) add(a Access, m ShareMode, d int) {
	if !takesPart(a) {
		return
	}
	c.opens += d
	for _, f := range [...]struct {
		yes bool
		n   *int
	}{
		{a&dataRead != 0, &c.readers},
		{a&dataWrite != 0, &c.writers},
		{a&Delete != 0, &c.deleters},
		{m&ShareRead != 0, &c.sharedRead},
		{m&ShareWrite != 0, &c.sharedWrite},
		{m&ShareDelete != 0, &c.sharedDelete},
	} {
		if f.yes {
			*f.n += d
		}
	}
}

// takesPart reports whether an open with that access takes part in sharing.
func takesPart(a Access) bool { return a&(dataRead|dataWrite|Delete) != 0 }
