package resident

import (
	"bytes"
	"io"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// What is locked is given, and nothing else.
func TestBytes(t *testing.T) {
	const size = 2*ChunkSize + 3*page + 100
	for name, dir := range map[string]string{"disk": diskDir(t), "memory": memoryDir(t)} {
		t.Run(name, func(t *testing.T) {
			c := newCache(t, Config{Budget: 1 << 30})
			v := view(t, c, patternFile(t, dir, size))
			for _, off := range []int64{0, ChunkSize, 2 * ChunkSize} {
				if !promoteNow(t, v, off) {
					t.Fatalf("the chunk at %d is not promoted", off)
				}
			}
			if got, want := c.Stats().Bytes, int64(2*ChunkSize+4*page); got != want || lockedMemory(t) < want {
				t.Errorf("%d bytes, want %d", got, want)
			}
			for _, r := range []struct {
				off   int64
				n     int
				there bool
			}{
				{0, 1, true}, {1, page, true}, {0, MaxRead, true}, {ChunkSize - 1, 2, true}, {ChunkSize - MaxRead/2, MaxRead, true},
				{2*ChunkSize - page, 4 * page, true}, {size - 1, 1, true}, {size - page, page, true},
				{0, 0, false}, {0, -1, false}, {0, MaxRead + 1, false}, {size, 1, false}, {size - 1, 2, false},
				{2*ChunkSize + 4*page, 1, false}, {segmentSize - 1, 1, false}, {segmentSize, 1, false}, {1 << 60, page, false},
				{1<<63 - 1 - page, page, false},
			} {
				b := v.Bytes(r.off, r.n)
				if b != nil != r.there {
					t.Errorf("%d bytes at %d: %v, want %v", r.n, r.off, b != nil, r.there)
				}
				if r.there && (len(b) != r.n || cap(b) != r.n || !bytes.Equal(b, pattern(make([]byte, r.n), r.off))) {
					t.Errorf("%d bytes at %d are wrong", r.n, r.off)
				}
			}
		})
	}
}

// A read within a segment that begins in a chunk which is locked, and ends in one that is
// not, has no bytes; nor has one that goes over the end of a segment.
func TestBytesOfTwoChunks(t *testing.T) {
	c := newCache(t, Config{Budget: 1 << 30})
	v := view(t, c, patternFile(t, diskDir(t), segmentSize+ChunkSize))
	for _, off := range []int64{0, segmentSize - ChunkSize, segmentSize} {
		if !promoteNow(t, v, off) {
			t.Fatal("not promoted")
		}
	}
	for off, there := range map[int64]bool{ChunkSize - page: true, ChunkSize - page + 1: false, segmentSize - page: true, segmentSize - 1: false} {
		if b := v.Bytes(off, page); b != nil != there {
			t.Errorf("a page at %d: %v, want %v", off, b != nil, there)
		}
	}
}

// Short reads make a chunk hot, and a goroutine promotes it; long ones do not.
func TestPromotion(t *testing.T) {
	dir := diskDir(t)
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, Config{Budget: 1 << 30})
		v := view(t, c, patternFile(t, dir, ChunkSize))
		for range 10 * DefaultThreshold {
			if v.Bytes(0, CountedRead+1) != nil {
				t.Fatal("long reads promote")
			}
		}
		for i := range DefaultThreshold {
			if atWork(c) {
				t.Fatalf("hot after %d reads", i)
			}
			if v.Bytes(int64(i)*page, CountedRead) != nil {
				t.Fatal("there before it is hot")
			}
		}
		synctest.Wait()
		if b := v.Bytes(5, 10); !bytes.Equal(b, pattern(make([]byte, 10), 5)) {
			t.Error("not there")
		}
		v.Used(1)
		if s := c.Stats(); s.Reads != 1 || s.Promotions != 1 || s.Bytes != ChunkSize || s.Budget != 1<<30 {
			t.Errorf("%+v", s)
		}
	})
}

// Reads that come slowly do not make a chunk hot.
func TestSlowReads(t *testing.T) {
	dir := diskDir(t)
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, Config{Budget: 1 << 30})
		v := view(t, c, patternFile(t, dir, ChunkSize))
		for range 5 * DefaultThreshold {
			v.Bytes(0, page)
			time.Sleep(2 * HotTime / DefaultThreshold)
		}
		if atWork(c) {
			t.Error("hot")
		}
	})
}

// What is not used is unlocked after a while, and then there is no timer.
func TestIdle(t *testing.T) {
	dir := diskDir(t)
	synctest.Test(t, func(t *testing.T) {
		c := newCache(t, Config{Budget: 1 << 30, Threshold: 1})
		v := view(t, c, patternFile(t, dir, 2*ChunkSize))
		v.Bytes(0, page)
		synctest.Wait() // who finds the cache busy goes on without
		v.Bytes(ChunkSize, page)
		synctest.Wait()
		for range 10 * IdleSweeps {
			if v.Bytes(0, page) == nil {
				t.Fatal("gone while it is used")
			}
			time.Sleep(SweepEvery)
		}
		synctest.Wait()
		if s := c.Stats(); s.Bytes != ChunkSize || s.Promotions != 2 || s.Demotions != 1 {
			t.Errorf("one is used: %+v", s)
		}
		time.Sleep((IdleSweeps + 1) * SweepEvery)
		synctest.Wait()
		if s := c.Stats(); s.Bytes != 0 || s.Demotions != 2 || lockedMemory(t) != 0 || atWork(c) {
			t.Errorf("none is used: %+v, at work %v", s, atWork(c))
		}
		if v.file.find(0, page) != nil {
			t.Error("still there")
		}
		v.Bytes(0, page)
		synctest.Wait()
		if v.Bytes(0, page) == nil {
			t.Error("not promoted again")
		}
		time.Sleep((IdleSweeps + 2) * SweepEvery)
		synctest.Wait()
		if s := c.Stats(); s.Demotions != 3 || atWork(c) {
			t.Errorf("not used again: %+v, at work %v", s, atWork(c))
		}
	})
}

// With the budget full, what a sweep found unused makes room, and nothing else does.
func TestBudget(t *testing.T) {
	c := newCache(t, Config{Budget: 2*ChunkSize + page})
	v := view(t, c, patternFile(t, diskDir(t), 4*ChunkSize))
	a, b, d := int64(0), int64(ChunkSize), int64(2*ChunkSize)
	if !promoteNow(t, v, a) || !promoteNow(t, v, b) || promoteNow(t, v, d) {
		t.Fatal("two chunks have room, and three have not")
	}
	if !c.full.Load() {
		t.Error("it is not full")
	}
	c.sweep()
	if v.Bytes(a, 1) == nil || promoteNow(t, v, d) {
		t.Fatal("what was used before the sweep makes room")
	}
	c.sweep()
	v.Bytes(a, 1)
	if c.full.Load() || !promoteNow(t, v, d) || v.Bytes(b, 1) != nil || v.Bytes(a, 1) == nil {
		t.Fatal("what was not used does not make room")
	}
	if s := c.Stats(); s.Bytes > s.Budget || s.Demotions != 1 || s.Promotions != 3 || s.Refused != 0 {
		t.Errorf("%+v", s)
	}
	c.sweep()
	c.sweep()
	v.Bytes(d, 1)
	if promoteNow(t, v, 3*ChunkSize); v.file.find(a, 1) != nil || v.file.find(d, 1) == nil {
		t.Error("what was used since the sweep makes room")
	}
}

// What is larger than the budget keeps nobody out, and is not tried again at once.
func TestLargerThanBudget(t *testing.T) {
	c := newCache(t, Config{Budget: 2 * page, Threshold: 1})
	small := view(t, c, patternFile(t, diskDir(t), page))
	f := patternFile(t, diskDir(t), ChunkSize)
	large := c.Open(Key{Number: 2}, f)
	defer large.Close()
	if promoteNow(t, &large, 0) || c.full.Load() || c.segments != 0 {
		t.Errorf("%d segments, full: %v", c.segments, c.full.Load())
	}
	if large.Bytes(0, 1); len(c.queues) != 0 {
		t.Error("it is tried again at once")
	}
	if !promoteNow(t, small, 0) {
		t.Error("there is no room for a page")
	}
}

// Without a budget nothing is counted, nor kept.
func TestNoBudget(t *testing.T) {
	c := newCache(t, Config{Budget: -1, Threshold: 1})
	v := c.Open(Key{}, patternFile(t, t.TempDir(), page))
	if v.Bytes(0, 1) != nil || atWork(c) || c.Stats() != (Stats{}) {
		t.Error("something is kept")
	}
	v.Close()
	c.Forget(Key{})
}

// A file that grows is locked further when what came is hot.
func TestGrowth(t *testing.T) {
	c := newCache(t, Config{Budget: 1 << 30})
	f := patternFile(t, diskDir(t), page+1)
	v := view(t, c, f)
	promoteNow(t, v, 0)
	if v.Bytes(0, page+1) == nil || v.Bytes(0, page+2) != nil {
		t.Error("two pages are there")
	}
	if _, err := f.WriteAt(pattern(make([]byte, 3*page), 0), 0); err != nil {
		t.Fatal(err)
	}
	if v.Bytes(0, 2*page) == nil || v.Bytes(2*page, 1) != nil {
		t.Error("what came on a page that is locked is there, and no more")
	}
	promoteNow(t, v, 0)
	if got := v.Bytes(0, 3*page); !bytes.Equal(got, pattern(make([]byte, 3*page), 0)) || c.Stats().Bytes != 3*page {
		t.Errorf("three pages, %+v", c.Stats())
	}
	promoteNow(t, v, 0)
	if s := c.Stats(); s.Promotions != 2 {
		t.Errorf("promoted again: %+v", s)
	}
}

// What is cut off is not given, and a copy that had begun says that it is not there.
func TestCut(t *testing.T) {
	for name, dir := range map[string]string{"disk": diskDir(t), "memory": memoryDir(t)} {
		t.Run(name, func(t *testing.T) {
			c := newCache(t, Config{Budget: 1 << 30})
			f := patternFile(t, dir, 4*page)
			v := view(t, c, f)
			promoteNow(t, v, 0)
			b, dst := v.Bytes(page, page), make([]byte, page)
			if !Copy(dst, b) || !bytes.Equal(dst, pattern(make([]byte, page), page)) {
				t.Fatal("not copied")
			}
			if err := f.Truncate(100); err != nil {
				t.Fatal(err)
			}
			if Copy(dst, b) {
				t.Error("a page is copied that is gone")
			}
			if v.Bytes(page, page) != nil || v.Bytes(0, 101) != nil {
				t.Error("bytes that are gone are given")
			}
			if b := v.Bytes(0, 100); !Copy(dst, b) || !bytes.Equal(dst[:100], pattern(make([]byte, 100), 0)) {
				t.Error("what is left is not given")
			}
			if err := f.Truncate(4 * page); err != nil {
				t.Fatal(err)
			}
			if b := v.Bytes(page, page); b == nil || !Copy(dst, b) || !bytes.Equal(dst, make([]byte, page)) {
				t.Error("what a file grows by is not zeros")
			}
		})
	}
}

// That a file still reaches as far as it is known to have done is told by the last byte, if that
// is not zero: the system is not asked then.
func TestEnd(t *testing.T) {
	for name, dir := range map[string]string{"disk": diskDir(t), "memory": memoryDir(t)} {
		t.Run(name, func(t *testing.T) {
			f := patternFile(t, dir, 0)
			if _, err := f.WriteAt(bytes.Repeat([]byte("x"), 2*page), 0); err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt([]byte{0}, 99); err != nil {
				t.Fatal(err)
			}
			v := view(t, newCache(t, Config{Budget: 1 << 30}), f)
			promoteNow(t, v, 0)
			deaf := View{file: v.file, fd: -1} // the system tells it nothing
			for _, step := range []struct {
				what   string
				known  bool // that the file has two pages, which another view has seen
				cut    int64
				off    int64
				n      int
				there  bool
				system bool // which is asked after all
			}{
				{"of a size that nobody has asked for", false, -1, 0, page, false, true},
				{"of a file as it was", true, -1, 0, page, true, false},
				{"to its end", true, -1, page, page, true, false},
				{"of a page that it never had", true, -1, page, page + 1, false, false},
				{"up to a zero", true, -1, 0, 100, false, true},
				{"behind a zero", true, -1, 0, 101, true, false},
				{"beyond the end in a page", true, page + 200, page, page, false, true},
				{"right beyond it", true, page + 200, page, 201, false, true},
				{"up to it", true, page + 200, page, 200, true, false},
				{"of a page that is gone", true, 200, page, page, false, true},
			} {
				if step.known {
					v.file.known.Store(2 * page)
				}
				if step.cut >= 0 {
					if err := f.Truncate(step.cut); err != nil {
						t.Fatal(err)
					}
				}
				before := v.file.known.Load()
				if b := deaf.Bytes(step.off, step.n); b != nil != step.there || b != nil && len(b) != step.n {
					t.Errorf("%s: %d bytes", step.what, len(b))
				}
				if asked := before != v.file.known.Load(); asked != step.system {
					t.Errorf("%s: the system was asked: %t", step.what, asked)
				}
			}
		})
	}
}

// Other panics than faults go on.
func TestCopyPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a panic got lost")
		}
	}()
	var none *[8]byte
	Copy(none[:], make([]byte, 8))
}

// While a file is cut and written, readers see what was written, or zeros, or that it is not
// there; promotions and demotions go on.
func TestCutWhileRead(t *testing.T) {
	const size = ChunkSize + 16*page
	c := newCache(t, Config{Budget: ChunkSize + page, Threshold: 1})
	f := patternFile(t, diskDir(t), size)
	v := view(t, c, f)
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for r := range 2 {
		readers.Go(func() {
			dst, want := make([]byte, page), make([]byte, page)
			for i := r; ; i += 7 {
				select {
				case <-stop:
					return
				default:
				}
				off := int64(i%(size/page)) * page
				b := v.Bytes(off, page)
				if b == nil || !Copy(dst, b) {
					continue
				}
				pattern(want, off)
				for j := range dst {
					if dst[j] != want[j] && dst[j] != 0 {
						t.Errorf("at %d: %#x", off+int64(j), dst[j])
						return
					}
				}
			}
		})
	}
	for i := 0; i < 100 || c.Stats().Promotions == 0; i++ {
		if s := c.Stats(); s.Refused != 0 || s.Budget != ChunkSize+page {
			t.Errorf("what a file does is held against the system: %+v", s)
			break
		}
		for _, size := range []int64{int64(i) % 100 * 100, size} {
			if err := f.Truncate(size); err != nil {
				t.Error(err)
			}
		}
		if _, err := f.WriteAt(pattern(make([]byte, size/2), 0), 0); err != nil {
			t.Error(err)
		}
		if i%20 == 0 {
			c.full.Store(false) // as a sweep does, of which there may be one at a time only
		}
	}
	close(stop)
	readers.Wait()
}

// Of a file that loses pages nothing is kept for a while.
func TestHolesAreMade(t *testing.T) {
	c := newCache(t, Config{Budget: 1 << 30, Threshold: 1})
	f := patternFile(t, diskDir(t), 0)
	for range 8 { // not by one call, or the kernel may keep zeros instead of a hole
		if _, err := f.Write(make([]byte, page)); err != nil {
			t.Fatal(err)
		}
	}
	v := view(t, c, f)
	promoteNow(t, v, 0)
	c.sweep()
	if c.Stats().Demotions != 0 {
		t.Fatal("demoted without a reason")
	}
	const punch = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	if err := unix.Fallocate(int(f.Fd()), punch, 2*page, page); err != nil {
		t.Skip("this file system makes no holes: ", err)
	}
	dst := make([]byte, page)
	c.sweep()
	if c.Stats().Demotions != 1 || v.Bytes(0, page) != nil || atWork(c) {
		t.Errorf("a page is gone, and the chunk is there: %+v", c.Stats())
	}
	v.file.until.Store(0) // later
	if promoteNow(t, v, 0) != fillsHoles(t, f) {
		t.Error("promoted: ", v.file.find(0, 1) != nil)
	}
	if b := v.Bytes(2*page, page); b != nil && (!Copy(dst, b) || !bytes.Equal(dst, make([]byte, page))) {
		t.Error("a hole is not zeros")
	}
}

// Holes of a file on disk are zeros; those of one in memory are not filled.
func TestSparse(t *testing.T) {
	for name, dir := range map[string]string{"disk": diskDir(t), "memory": memoryDir(t)} {
		t.Run(name, func(t *testing.T) {
			f := patternFile(t, dir, page)
			kept := fillsHoles(t, f)
			if err := f.Truncate(4 * page); err != nil {
				t.Fatal(err)
			}
			var before, after unix.Stat_t
			if err := unix.Fstat(int(f.Fd()), &before); err != nil {
				t.Fatal(err)
			}
			v := view(t, newCache(t, Config{Budget: 1 << 30}), f)
			if promoteNow(t, v, 0) != kept {
				t.Errorf("promoted: %v", !kept)
			}
			if b := v.Bytes(page, page); kept && !bytes.Equal(b, make([]byte, page)) {
				t.Error("a hole is not zeros")
			}
			if err := unix.Fstat(int(f.Fd()), &after); err != nil || after.Blocks != before.Blocks {
				t.Errorf("%d blocks, %d before, %v", after.Blocks, before.Blocks, err)
			}
		})
	}
}

// A promotion leaves the position of a descriptor alone, whose lock those who read take too.
func TestPosition(t *testing.T) {
	for name, dir := range map[string]string{"disk": diskDir(t), "memory": memoryDir(t)} {
		t.Run(name, func(t *testing.T) {
			f := patternFile(t, dir, 2*page)
			v := view(t, newCache(t, Config{Budget: 1 << 30}), f)
			if _, err := f.Seek(5, io.SeekStart); err != nil {
				t.Fatal(err)
			}
			if !promoteNow(t, v, 0) {
				t.Fatal("not promoted")
			}
			if at, err := f.Seek(0, io.SeekCurrent); at != 5 || err != nil {
				t.Errorf("at %d, %v", at, err)
			}
		})
	}
}

// Files of other file systems are left alone, and what cannot be mapped.
func TestUnfit(t *testing.T) {
	c := newCache(t, Config{Budget: 1 << 30, Threshold: 1})
	f, err := os.Open("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	v := view(t, c, f)
	if promoteNow(t, v, 0) || v.file.until.Load() != forever {
		t.Error("a file of /proc is kept")
	}
	v.Bytes(0, 1)
	written, err := os.OpenFile(patternFile(t, diskDir(t), page).Name(), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer written.Close()
	w := c.Open(Key{Number: 2}, written)
	defer w.Close()
	if promoteNow(t, &w, 0) || w.file.until.Load() == 0 || c.segments != 0 {
		t.Error("a file is kept that is open for writing only")
	}
	if w.Bytes(0, 1); atWork(c) {
		t.Error("it is tried again at once")
	}
}

// The mappings are there as long as one view is, whoever promoted, and then as long as the
// file is hot, for who opens it again.
func TestViews(t *testing.T) {
	c := newCache(t, Config{Budget: 1 << 30})
	f, key := patternFile(t, diskDir(t), 3*ChunkSize), Key{1, 2}
	v, w := c.Open(key, f), c.Open(key, f)
	promoteNow(t, &v, 0)
	promoteNow(t, &w, ChunkSize)
	b := w.Bytes(0, page)
	v.Close()
	v.Close()
	if !bytes.Equal(b, pattern(make([]byte, page), 0)) || w.Bytes(ChunkSize, 1) == nil || v.Bytes(0, 1) != nil {
		t.Error("the other view is no more")
	}
	late := proposal{f: w.file, index: 2}
	w.Close()
	if s := c.Stats(); s.Bytes != 2*ChunkSize {
		t.Errorf("nobody has it open, and it is hot: %+v", s)
	}
	c.sweep()
	other := c.Open(Key{1, 3}, f)
	if other.Bytes(0, page) != nil {
		t.Error("another file has its bytes")
	}
	other.Close()
	v = c.Open(key, f)
	if !bytes.Equal(v.Bytes(0, page), pattern(make([]byte, page), 0)) {
		t.Error("who opens it again does not find it")
	}
	v.Close()
	for range IdleSweeps {
		c.sweep()
	}
	c.bury()
	if s := c.Stats(); s.Bytes != ChunkSize || len(c.files) != 1 {
		t.Errorf("half of it was not read since: %+v, %d files", s, len(c.files))
	}
	c.sweep()
	c.bury()
	if s := c.Stats(); s.Bytes != 0 || s.Promotions != 2 || s.Demotions != 2 || len(c.files) != 0 || c.segments != 0 {
		t.Errorf("not read any more: %+v, %d files", s, len(c.files))
	}
	var err error
	if late.fd, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	if c.consider(late); c.Stats().Promotions != 2 {
		t.Error("promoted without a view")
	}
}

// Of a file that is deleted nothing is kept for longer than it is open.
func TestForget(t *testing.T) {
	c := newCache(t, Config{Budget: 1 << 30})
	f, key := patternFile(t, diskDir(t), page), Key{1, 2}
	for _, open := range []bool{true, false} {
		v := c.Open(key, f)
		promoteNow(t, &v, 0)
		c.Forget(Key{2, 2})
		if open {
			c.Forget(key)
			if v.Bytes(0, page) == nil {
				t.Error("gone while it is open")
			}
		}
		if v.Close(); !open {
			if c.Stats().Bytes == 0 {
				t.Error("gone before it is deleted")
			}
			c.Forget(key)
		}
		if s := c.Stats(); s.Bytes != 0 || len(c.files) != 0 || lockedMemory(t) != 0 {
			t.Errorf("open %v: %+v", open, s)
		}
	}
}
