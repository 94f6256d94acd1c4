package resident

import (
	"os"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"lwio/internal/fault"
)

// Bits of an offset in its chunk, and in its segment.
const (
	chunkBits   = 21
	segmentBits = 26
	segmentSize = 1 << segmentBits
)

// file is a file of which a Cache keeps what is hot, whoever has it open. Cache.mu guards key,
// users, locked and doomed.
type file struct {
	c    *Cache
	id   uint64 // of no other
	seed uint64 // odd
	key  Key
	// users are the views that are open, and its device's goroutine while it has to do with
	// the file.
	users  int
	locked int  // chunks
	doomed bool // nothing of it is kept without a user
	table  atomic.Pointer[table]
	// until is up to when, in seconds of the cache, nothing of it is promoted.
	until atomic.Uint32
	// known is how many bytes it had when the system was asked last.
	known atomic.Int64

	fs       int64 // its file system, once that is known; the goroutine's of its device
	segments int   // in the table; the goroutine's of its device
}

// segment is mapped memory of a file, from index*segmentSize on.
type segment struct {
	index  uint64
	mem    []byte
	chunks [segmentSize / ChunkSize]atomic.Uint32
}

// The state of a chunk: twice the number of bytes that are locked, from its begin on, and
// whether they were used since somebody looked.
const used = 1

// part is the memory of a chunk's first n bytes.
func (s *segment) part(chunk, n int) []byte {
	return s.mem[chunk*ChunkSize:][:n:n]
}

// table finds the segments of a file by hashing: a power of two of slots, of which half are
// empty at least. The goroutine of the file's device adds to it.
type table struct {
	slots []atomic.Pointer[segment]
	seed  uint64
	shift int
}

// slot is where the segment is, or where it is to be.
func (t *table) slot(index uint64) *atomic.Pointer[segment] {
	for i := index * t.seed >> t.shift; ; i++ {
		at := &t.slots[i&uint64(len(t.slots)-1)]
		if s := at.Load(); s == nil || s.index == index {
			return at
		}
	}
}

// segment finds a segment, or nil.
func (f *file) segment(index uint64) *segment {
	t := f.table.Load()
	if t == nil {
		return nil
	}
	return t.slot(index).Load()
}

// add puts a segment into the table. Only the goroutine of its device does.
func (f *file) add(s *segment) {
	t := f.table.Load()
	if t == nil || 2*(f.segments+1) > len(t.slots) {
		bits := 1
		for 1<<bits < 4*(f.segments+1) {
			bits++
		}
		larger := &table{slots: make([]atomic.Pointer[segment], 1<<bits), seed: f.seed, shift: 64 - bits}
		for _, old := range f.all() {
			larger.slot(old.index).Store(old)
		}
		t = larger
	}
	t.slot(s.index).Store(s)
	f.table.Store(t)
	f.segments++
}

// all are the segments.
func (f *file) all() []*segment {
	t := f.table.Load()
	if t == nil {
		return nil
	}
	var list []*segment
	for i := range t.slots {
		if s := t.slots[i].Load(); s != nil {
			list = append(list, s)
		}
	}
	return list
}

// find gives n bytes from off on if they are locked, within a segment.
func (f *file) find(off int64, n int) []byte {
	s := f.segment(uint64(off) >> segmentBits)
	if s == nil {
		return nil
	}
	begin := int(off & (segmentSize - 1))
	end := begin + n
	for chunk := begin >> chunkBits; chunk < len(s.chunks); chunk++ {
		state, next := s.chunks[chunk].Load(), (chunk+1)<<chunkBits
		if min(end, next)-chunk<<chunkBits > int(state>>1) {
			return nil
		}
		if state&used == 0 {
			s.chunks[chunk].Or(used)
		}
		if end <= next {
			return s.mem[begin:end:end]
		}
	}
	return nil
}

// View is a file's open descriptor. The zero View has no bytes. Bytes may be called
// by many at a time, Close only after them.
type View struct {
	file *file
	fd   int
}

// Open makes a view of a descriptor of the file with that key, which is open as long as the
// view is and, for Bytes, open for reading. One that is nil has no bytes.
func (c *Cache) Open(key Key, f *os.File) View {
	if f == nil || c.heat == nil {
		return View{}
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return View{}
	}
	var v View
	if raw.Control(func(fd uintptr) { v.fd = int(fd) }) == nil {
		v.file = c.use(key)
	}
	return v
}

// Close ends the use of the view and of all that Bytes gave. A second Close does nothing.
func (v *View) Close() {
	if v.file != nil {
		v.file.c.release(v.file)
		v.file = nil
	}
}

// Bytes gives n bytes of the file from byte off on where they are in memory, or nil if they
// are not there, or the file does not have so many: then it is read by a system call. It is
// called before each read of the file, and counts those that it has no bytes for; Used counts
// the others. It takes a fifth of a microsecond at most and waits for nothing. off+n must be no
// overflow.
//
// It looks at the last of the bytes and does nothing that the processor has to wait for with
// what it does next: who asks for those of several reads in a row, before it copies any, has
// their memory looked up at the same time.
//
// The bytes are good until the view is closed. They change as the file does, and can go away
// as Copy says; they cannot be written.
func (v *View) Bytes(off int64, n int) []byte {
	f := v.file
	if f == nil || n <= 0 || n > MaxRead {
		return nil
	}
	b := f.find(off, n)
	switch {
	case b == nil && n <= CountedRead:
		v.count(uint64(off) >> chunkBits)
		return nil
	case b == nil, !v.reaches(off+int64(n), b):
		return nil
	}
	return b
}

// Used counts n reads that Bytes gave the bytes of.
func (v *View) Used(n int) {
	if f := v.file; f != nil {
		f.c.reads[f.id%stripes].n.Add(uint64(n))
	}
}

// reaches tells whether the file has the byte before end, which is the last of b. A file that
// is known to have had it has it still if it is not zero: what is behind the end of a file in
// its last page is made zero when it is cut, and the pages behind that are taken away. Else the
// system is asked, which takes longer than all the rest.
func (v *View) reaches(end int64, b []byte) bool {
	f := v.file
	if end <= f.known.Load() && isSet(&b[len(b)-1]) {
		return true
	}
	now := v.size()
	if now != f.known.Load() {
		f.known.Store(now)
	}
	return end <= now
}

// isSet tells whether a byte of mapped memory is there, and not zero.
func isSet(p *byte) (set bool) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		if fault.Caught(old, recover()) {
			set = false
		}
	}()
	return *p != 0
}

// count counts a read of a chunk, and proposes it if it is hot.
func (v *View) count(chunk uint64) {
	c := v.file.c
	if hot := c.heat.add(v.file.id<<44 ^ chunk); hot != nil && !c.propose(v, chunk) {
		c.heat.again(hot)
	}
}

// size is how many bytes the file has, or -1. SEEK_END is the quickest way to ask for it;
// the position that it sets is of no use to anybody.
func (v *View) size() int64 {
	n, _, errno := unix.RawSyscall(unix.SYS_LSEEK, uintptr(v.fd), 0, unix.SEEK_END)
	if errno != 0 {
		return -1
	}
	return int64(n)
}
