package smbserver

import "lwio/vfs"

// sameFile is the table of the durable opens of each file, as lists whose links are in the opens. An open enters and
// leaves it in the same time for any number of opens. The zero value is not usable. Guarded by lineages.mu.
type sameFile map[vfs.NodeID]*durable // the first of each list; without empty ones

// add adds an open.
func (t sameFile) add(d *durable) {
	node := d.file.Node()
	if d.later = t[node]; d.later != nil {
		d.later.earlier = d
	}
	t[node] = d
}

// remove removes an open that was added.
func (t sameFile) remove(d *durable) {
	node := d.file.Node()
	switch {
	case d.earlier != nil:
		d.earlier.later = d.later
	case d.later != nil:
		t[node] = d.later
	default:
		delete(t, node)
	}
	if d.later != nil {
		d.later.earlier = d.earlier
	}
	d.earlier, d.later = nil, nil
}

// of returns the durable opens of a file.
func (t sameFile) of(node vfs.NodeID) (list []*durable) {
	for d := t[node]; d != nil; d = d.later {
		list = append(list, d)
	}
	return list
}
