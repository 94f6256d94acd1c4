package smbserver

import (
	"sync"

	"lwio/vfs"
)

// tree is a session's use of a share, or of IPC$ if share is nil.
//
// Source: [MS-SMB2 3.3.1.9]
type tree struct {
	id    uint32
	name  string
	share *vfs.Share
}

// isPipe reports whether the tree is IPC$.
func (t *tree) isPipe() bool { return t.share == nil }

// open is a file, directory or pipe that a session has open: either file or
// pipe is set. The persistent and the volatile part of its FileId are equal,
// since handles do not outlive their connection.
//
// Source: [MS-SMB2 3.3.1.10]
type open struct {
	id   uint64
	tree *tree
	file *vfs.Open
	pipe *pipe

	search search
}

// close ends what the open stands for and returns when it is over.
func (o *open) close() error {
	if o.pipe != nil {
		o.pipe.close()
		return nil
	}
	return o.file.Close()
}

// search is where the enumeration of a directory stands.
type search struct {
	mu      sync.Mutex
	pattern pattern
	single  string // the pattern, if it can match one name only
	begun   bool
	over    bool
}

// closeOpens closes several opens together, so that one that stalls does not hold
// up the others, and returns when all are closed.
func closeOpens(fs *vfs.FS, opens []*open) {
	var files []*vfs.Open
	for _, o := range opens {
		if o.pipe != nil {
			o.pipe.close()
		} else {
			files = append(files, o.file)
		}
	}
	fs.CloseAll(files...)
}
