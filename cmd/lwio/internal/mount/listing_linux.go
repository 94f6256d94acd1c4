package mount

import (
	"context"
	"io/fs"
	"sync"
	"syscall"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// listing is an open directory. It lists the directory when it is read from its beginning. Safe for concurrent use.
type listing struct {
	n *node

	mu      sync.Mutex
	entries []fs.DirEntry
	listed  bool
	next    int // index of the next entry
}

var _ interface {
	fusefs.FileReaddirenter
	fusefs.FileLookuper
	fusefs.FileSeekdirer
	fusefs.FileFsyncdirer
} = (*listing)(nil)

// Fsyncdir returns when the names in the directory are on stable storage.
func (l *listing) Fsyncdir(ctx context.Context, _ uint32) syscall.Errno {
	at, errno := l.n.path()
	if errno != 0 {
		return errno
	}
	return errnoOf(l.n.m.c.SyncDir(within(ctx), at))
}

// Seekdir continues behind the entry whose offset is off.
func (l *listing) Seekdir(_ context.Context, off uint64) syscall.Errno {
	l.mu.Lock()
	defer l.mu.Unlock()
	if off == 0 {
		l.entries, l.listed = nil, false
	}
	l.next = int(off)
	return 0
}

// Readdirent returns the next entry, or nil.
func (l *listing) Readdirent(ctx context.Context) (*fuse.DirEntry, syscall.Errno) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.listed {
		at, errno := l.n.path()
		if errno == syscall.ESTALE {
			return nil, 0 // a removed directory is empty
		}
		entries, err := l.n.m.c.ReadDir(within(ctx), at)
		if err != nil {
			return nil, errnoOf(err)
		}
		l.entries, l.listed = entries, true
	}
	for l.next < len(l.entries) {
		e := l.entries[l.next]
		l.next++
		if isHidden(e.Name()) {
			continue
		}
		mode := uint32(syscall.S_IFREG)
		if e.IsDir() {
			mode = syscall.S_IFDIR
		}
		return &fuse.DirEntry{Name: e.Name(), Mode: mode, Off: uint64(l.next)}, 0
	}
	return nil, 0
}

// Lookup describes the last entry of Readdirent. A file that is open here may have changed since the listing.
func (l *listing) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fusefs.Inode, syscall.Errno) {
	l.mu.Lock()
	var e fs.DirEntry
	if l.next > 0 && l.next <= len(l.entries) {
		e = l.entries[l.next-1]
	}
	l.mu.Unlock()
	in := l.n.GetChild(name)
	if e == nil || e.Name() != name || in != nil && in.Operations().(*node).opens.any(false) != nil {
		return l.n.Lookup(ctx, name, out)
	}
	i, err := e.Info()
	if err != nil {
		return nil, errnoOf(err)
	}
	return l.n.known(ctx, name, i, out), 0
}
