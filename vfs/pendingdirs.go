package vfs

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
)

// pendingDirs are the directories of a share whose delete is pending, by path. A look-up costs one
// atomic load while there are none. Otherwise its time is proportional to the length of the path, and
// mu is held for one directory above the path at a time: a path can have thousands of them. Safe for
// concurrent use.
type pendingDirs struct {
	seed maphash.Seed
	n    atomic.Int64 // len(paths)

	mu    sync.Mutex
	paths map[string]struct{}
	sums  map[uint64]int // the number of paths with a hash
}

func newPendingDirs() *pendingDirs {
	return &pendingDirs{seed: maphash.MakeSeed(), paths: make(map[string]struct{}), sums: make(map[uint64]int)}
}

// add adds a directory.
func (d *pendingDirs) add(path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, is := d.paths[path]; is {
		return
	}
	d.paths[path] = struct{}{}
	d.sums[maphash.String(d.seed, path)]++
	d.n.Add(1)
}

// remove removes a directory.
func (d *pendingDirs) remove(path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, is := d.paths[path]; !is {
		return
	}
	delete(d.paths, path)
	sum := maphash.String(d.seed, path)
	if d.sums[sum]--; d.sums[sum] == 0 {
		delete(d.sums, sum)
	}
	d.n.Add(-1)
}

// above reports whether a directory above path is one of them. The hash of each directory continues
// the hash of the directory above it.
func (d *pendingDirs) above(path string) bool {
	if d.n.Load() == 0 {
		return false
	}
	var h maphash.Hash
	h.SetSeed(d.seed)
	for end := 0; ; end++ {
		next := strings.IndexByte(path[end:], '/')
		if next < 0 {
			return false
		}
		h.WriteString(path[max(end-1, 0) : end+next])
		end += next
		if d.has(path[:end], h.Sum64()) {
			return true
		}
	}
}

// has reports whether path, with its hash, is one of them.
func (d *pendingDirs) has(path string, sum uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sums[sum] == 0 {
		return false
	}
	_, is := d.paths[path]
	return is
}
