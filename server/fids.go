package server

import (
	"lwio/rdma"
	"lwio/vfs"
)

// fid is a file registered on a connection. conn.mu guards what changes.
//
// Source: [LWIO §File Registration] [OP-53]
type fid struct {
	id   uint16
	open *vfs.Open
	// canRead and canWrite are what SMB granted. [OP-57]
	canRead, canWrite bool
	// unbuffered is the open's FILE_NO_INTERMEDIATE_BUFFERING. [OP-51]
	unbuffered bool
	// traffic is that of its share.
	traffic *shareTraffic
	// source is the file for writes straight from it, or nil. The loop uses it for
	// operations that hold the file.
	source rdma.FileSource
	// size is how many bytes the file had when that was last looked at. The loop's.
	size int64
	// reading and writing are the file's lines, whoever uses it.
	reading, writing *line
	// portion is the file's of the arena, memory what this connection has of that, in
	// bytes; guarded by arena.mu.
	portion *portion
	memory  int
	// unhook takes the hooks on the open back.
	unhook func()

	// inFlight is the I/O that is not answered, held that with a reference on the
	// open, which lasts until the answer and its data are posted.
	inFlight, held int
	// retired: it has left the table.
	retired bool
	// closer is the CLOSE that waits for what is in flight. [OP-94d]
	closer *op
}

// join enters f where files wait for their turn and for memory.
func (f *fid) join(c *conn) {
	node := f.open.Node()
	f.reading, f.writing, f.portion = c.e.readers.join(node), c.e.writers.join(node), c.f.arena.join(node)
}

// part undoes join.
func (f *fid) part(c *conn) {
	f.reading.part()
	f.writing.part()
	c.f.arena.part(f.portion)
}

// fidTable numbers the files of a connection: from 1, never 0, the next number
// that is free, so that one that was given up comes back as late as possible.
//
// Source: [OP-54] [OP-55]
type fidTable struct {
	files map[uint16]*fid
	used  *fid // the last that was found, nil once it is out
	last  uint16
	limit int
}

// add numbers f; false says that the table is full.
func (t *fidTable) add(f *fid) bool {
	if len(t.files) >= t.limit {
		return false
	}
	if t.files == nil {
		t.files = make(map[uint16]*fid)
	}
	for {
		t.last++
		if _, taken := t.files[t.last]; t.last != 0 && !taken {
			break
		}
	}
	f.id = t.last
	t.files[f.id] = f
	return true
}

// get finds a file; nil if there is none of that number.
func (t *fidTable) get(id uint16) *fid {
	if f := t.used; f != nil && f.id == id {
		return f
	}
	f := t.files[id]
	t.used = f
	return f
}

// remove takes f out and reports whether it was there.
func (t *fidTable) remove(f *fid) bool {
	if t.files[f.id] != f {
		return false
	}
	delete(t.files, f.id)
	t.used = nil
	return true
}
