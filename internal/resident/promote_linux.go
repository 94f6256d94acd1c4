package resident

import (
	"errors"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// fileSystems are those whose page cache is all that there is of a file on this host.
var fileSystems = []int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC}

// consider promotes what is proposed, if that is still of use, and closes the descriptor.
func (c *Cache) consider(p proposal) {
	defer unix.Close(p.fd)
	if !c.reuse(p.f) {
		return
	}
	defer c.release(p.f)
	if !p.f.fits(p.fd) {
		p.f.until.Store(forever)
		return
	}
	c.promote(p)
}

// forever is later than any second of a cache.
const forever = 1<<32 - 1

// fits reports whether the file's file system is one of fileSystems.
func (f *file) fits(fd int) bool {
	if f.fs == 0 {
		var st unix.Statfs_t
		if unix.Fstatfs(fd, &st) != nil {
			return false
		}
		f.fs = int64(st.Type)
	}
	return slices.Contains(fileSystems, f.fs)
}

// leaveAlone sees to it that nothing of the file is promoted for a while.
func (f *file) leaveAlone() {
	f.until.Store(f.c.heat.now() + uint32(LeaveAlone/time.Second))
}

// promote maps and locks a chunk, as far as the file goes. A file with one that is larger than
// the budget is left alone: there is never room for it, while there may be for others.
func (c *Cache) promote(p proposal) {
	n := p.f.extent(p)
	if int64(n) > c.limit.Load() {
		p.f.leaveAlone()
		return
	}
	s := p.f.segment(p.index >> (segmentBits - chunkBits))
	if n == 0 || s == nil && c.mapSegment(p) != nil {
		return
	}
	s = p.f.segment(p.index >> (segmentBits - chunkBits))
	i := int(p.index) % len(s.chunks)
	if had := int(s.chunks[i].Load() >> 1); had >= n {
		return
	} else if had > 0 {
		c.demote(s, i) // the file has grown
	}
	if !c.reserve(n) {
		return
	}
	mem := s.part(i, n)
	if err := c.lock(mem); err != nil {
		_ = unix.Munlock(mem)
		c.unreserve(n)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.chunks = append(c.chunks, &chunk{f: p.f, s: s, i: i, bytes: n})
	p.f.locked++
	s.chunks[i].Store(uint32(n)<<1 | used)
	c.promotions.Add(1)
}

// extent is how many bytes of a chunk can be locked: whole pages up to the end of the file.
// Those of a file in tmpfs that has holes cannot: a mapping would fill them. Where they are is
// not asked for: SEEK_HOLE waits for who writes, and View.size for SEEK_HOLE.
func (f *file) extent(p proposal) int {
	begin := int64(p.index) << chunkBits
	var st unix.Stat_t
	if begin < 0 || unix.Fstat(p.fd, &st) != nil || st.Size <= begin {
		return 0
	}
	const block = 512 // of Blocks, whatever the file system
	if f.fs == unix.TMPFS_MAGIC && st.Blocks*block < st.Size {
		return 0
	}
	page := int64(os.Getpagesize())
	return int((min(st.Size, begin+ChunkSize) - begin + page - 1) / page * page)
}

// mapSegment maps the segment of a chunk.
func (c *Cache) mapSegment(p proposal) error {
	index := p.index >> (segmentBits - chunkBits)
	c.mu.Lock()
	room := c.segments < maxSegments
	if room {
		c.segments++
	}
	c.mu.Unlock()
	if !room {
		return unix.ENOMEM
	}
	mem, err := unix.Mmap(p.fd, int64(index)<<segmentBits, segmentSize, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		c.freed(0, 1)
		p.f.leaveAlone()
		return err
	}
	p.f.add(&segment{index: index, mem: mem})
	return nil
}

// lock reads what is not in memory yet, and locks it. It may wait for a disk. If that cannot
// be read, or is cut off meanwhile, the chunk alone is at fault; if it cannot be locked, which
// asks nothing of the file, no more than what is locked now ever will be.
func (c *Cache) lock(mem []byte) error {
	if err := c.populate(mem); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	if err := lockOnFault(mem); err != nil {
		c.refuse(len(mem), err)
		return err
	}
	err := c.populate(mem)           // what went away before it was locked
	if errors.Is(err, unix.EINVAL) { // kernels before 5.14
		err = unix.Mlock(mem)
	}
	return err
}

// populate reads what is not in memory of a mapping.
func populate(mem []byte) error { return unix.Madvise(mem, unix.MADV_POPULATE_READ) }

// refuse is what happens when the system does not lock n bytes, which are reserved.
func (c *Cache) refuse(n int, err error) {
	c.mu.Lock()
	c.limit.Store(min(c.limit.Load(), c.bytes.Load()-int64(n))) // others may reserve meanwhile
	c.full.Store(true)
	c.mu.Unlock()
	if c.refused.Add(1) == 1 {
		c.log.Info("resident: the system locks no more memory for hot parts of files: the rest is read by system calls",
			"locked", c.limit.Load(), "err", err,
			"next", "raise RLIMIT_MEMLOCK (ulimit -l, or LimitMEMLOCK= of the service), or give CAP_IPC_LOCK")
	}
}
