//go:build linux

package shm

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// source makes a file of n random bytes, which stays in the page cache, and a source of
// it.
func (s *side) source(tb testing.TB, n int) (*os.File, []byte, rdma.FileSource) {
	tb.Helper()
	f, data, src, letGo := s.looseSource(tb, n)
	tb.Cleanup(letGo)
	return f, data, src
}

// looseSource is source with a function letGo. After letGo the system may drop the file
// from the page cache.
func (s *side) looseSource(tb testing.TB, n int) (f *os.File, data []byte, src rdma.FileSource, letGo func()) {
	tb.Helper()
	data = fill(make([]byte, n))
	f = must[*os.File](tb)(os.Create(filepath.Join(tb.TempDir(), "data")))
	tb.Cleanup(func() { f.Close() })
	must[int](tb)(f.Write(data))
	mem := must[[]byte](tb)(unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE))
	if err := unix.Mlock(mem); err != nil {
		tb.Log("the file may leave the page cache while it is mapped only:", err)
	}
	letGo = func() {
		if err := unix.Munmap(mem); err != nil {
			tb.Error(err)
		}
	}
	return f, data, must[rdma.FileSource](tb)(s.a.RegisterFile(tb.Context(), f)), letGo
}

// Writes from every offset of a file arrive, by ring and directly, with zeros past the
// end of the file. Source: [OP-92i], design decision 6
func TestFileWriteFromEveryOffset(t *testing.T) {
	const size = 300_000
	active, passive := connected(t, nil, 1<<20)
	heap := make([]byte, 1<<20)
	byCopy := must[rdma.MemoryRegion](t)(passive.a.RegisterMemory(t.Context(), heap, rdma.AccessRemoteWrite))
	_, data, src := active.source(t, size)
	active.introduce(t, passive.region)
	for _, way := range []struct {
		name string
		at   rdma.RemoteAddr
		mem  []byte
	}{{"direct", passive.at(0), passive.mem}, {"by copy", byCopy.RemoteAddr(), heap}} {
		for _, c := range []struct{ off, n, real int }{
			{0, 0, 0}, {0, 1, 1}, {5, 4096, 4096}, {0, size, size}, {1000, size, size - 1000}, {size, 100, 0}, {size + 5, 64, 0},
		} {
			for i := range way.mem {
				way.mem[i] = 0xee
			}
			res := active.write(t, rdma.Request{ID: 9, File: src, FileOffset: int64(c.off), FileLength: c.n, Remote: way.at})
			if res.Status != rdma.StatusSuccess || res.Bytes != c.real || res.ID != 9 {
				t.Fatalf("%s, %+v: %+v", way.name, c, res)
			}
			active.deliver(t, passive)
			want := make([]byte, c.n)
			copy(want, data[min(c.off, size):])
			if !bytes.Equal(way.mem[:c.n], want) || way.mem[c.n] != 0xee {
				t.Errorf("%s, %+v: the bytes differ", way.name, c)
			}
		}
	}
}

// Cached pages are written at once, by ring and directly. A write that would have to wait
// is refused without an effect. Source: design decision 6
func TestCachedWriteIsDoneAtOnce(t *testing.T) {
	active, passive := connected(t, &Config{RingSize: 1}, 1<<20)
	f, data, src, letGo := active.looseSource(t, 40_000)
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	cached := func(n int) rdma.Request {
		return rdma.Request{Op: rdma.OpWrite, Flags: rdma.FlagOnlyIfCached, File: src, FileLength: n, Remote: passive.at(0)}
	}
	_, err := active.qp.Post([]rdma.Request{cached(40_000)})
	if !errors.Is(err, rdma.StatusDeviceBusy) {
		t.Errorf("more than one entry of the ring: %v", err)
	}
	for _, direct := range []bool{false, true} {
		clear(passive.mem)
		if direct {
			active.introduce(t, passive.region)
		}
		for _, n := range []int{1000, 10_000} {
			active.post(t, cached(n))
			if res := next(t, active.icq); res.Status != rdma.StatusSuccess || res.Bytes != n {
				t.Errorf("result %+v", res)
			}
			active.deliver(t, passive)
			if !bytes.Equal(passive.mem[:n], data[:n]) {
				t.Errorf("direct %v: the bytes differ", direct)
			}
		}
	}
	active.post(t, cached(50_000))
	if res := next(t, active.icq); res.Bytes != 40_000 {
		t.Errorf("past the end of the file: %+v", res)
	}
	src.(*fileSource).cached = false
	letGo()
	dropCache(t, f)
	if _, err := active.qp.Post([]rdma.Request{cached(4096)}); err != nil && !errors.Is(err, rdma.StatusDeviceBusy) {
		t.Errorf("pages that are not in memory: %v", err)
	}
	clear(passive.mem)
	dropCache(t, f)
	active.post(t, rdma.Request{Op: rdma.OpWrite, File: src, FileLength: 40_000, Remote: passive.at(0)})
	active.deliver(t, passive) // takes the results of all three requests
	if !bytes.Equal(passive.mem[:40_000], data) {
		t.Error("a file that must be waited for is not written, or not before the next request")
	}
}

// A file that ends in the middle of a write and then grows again counts as ended. The
// rest of the data is zero and does not count. Source: [OP-92i]
func TestShrunkFileEndsWithZeros(t *testing.T) { testFileShrinks(t, 0) }

// A file that becomes unreadable counts as ended too. The connection continues.
func TestUnreadableFileEndsWithZeros(t *testing.T) { testFileShrinks(t, unix.EIO) }

func testFileShrinks(t *testing.T, end unix.Errno) {
	const size = 3 * 4096
	active, passive := connected(t, nil, 1<<20)
	heap := make([]byte, size)
	byCopy := must[rdma.MemoryRegion](t)(passive.a.RegisterMemory(t.Context(), heap, rdma.AccessRemoteWrite))
	active.introduce(t, passive.region)
	for _, way := range []struct {
		name string
		at   rdma.RemoteAddr
		mem  []byte
	}{{"direct", passive.at(0), passive.mem}, {"by copy", byCopy.RemoteAddr(), heap}} {
		_, data, src := active.source(t, size)
		tx := &active.inside().tx
		r, chunk := &tx.data.reader, tx.chunk
		if way.name == "by copy" {
			tx.chunk = 4096 // three entries
		}
		read, calls := r.fn, 0
		r.fn = func(fd uintptr) {
			switch calls++; {
			case calls == 2: // the file is short now
				r.n, r.err = 0, end
			case r.iov.Len > 4096: // the rest of the file
				r.iov.SetLen(4096)
				fallthrough
			default:
				read(fd)
			}
		}
		res := active.write(t, rdma.Request{File: src, FileLength: size, Remote: way.at})
		r.fn, tx.chunk = read, chunk
		if res.Status != rdma.StatusSuccess || res.Bytes != 4096 {
			t.Errorf("%s: %+v", way.name, res)
		}
		active.deliver(t, passive)
		if !bytes.Equal(way.mem[:4096], data[:4096]) || bytes.ContainsFunc(way.mem[4096:size], func(r rune) bool { return r != 0 }) {
			t.Errorf("%s: the bytes differ", way.name)
		}
	}
}

// A write from a file with only its beginning in memory does not change the peer's
// memory. Source: design decision 6
func TestHalfCachedFileLeavesPeerMemory(t *testing.T) {
	active, passive := connected(t, nil, 1<<20)
	_, _, src := active.source(t, 8192)
	src.(*fileSource).cached = false
	active.introduce(t, passive.region)
	clear(passive.mem)
	r := &active.inside().tx.data.reader
	read := r.fn
	r.fn = func(fd uintptr) {
		if r.off >= 4096 {
			r.n, r.err = -1, unix.EAGAIN
			return
		}
		r.iov.SetLen(4096)
		read(fd)
	}
	_, err := active.qp.Post([]rdma.Request{{
		Op: rdma.OpWrite, Flags: rdma.FlagOnlyIfCached, File: src, FileLength: 8192, Remote: passive.at(0),
	}})
	if !errors.Is(err, rdma.StatusDeviceBusy) || !bytes.Equal(passive.mem[:8192], make([]byte, 8192)) {
		t.Errorf("%v, or the peer's memory has changed", err)
	}
	r.fn = read
	active.deliver(t, passive)
}

// Requests that are posted while a cached write is tried come after it, whether it
// succeeds or not. Source: design decision 6
func TestConcurrentPostsFollowCachedWrite(t *testing.T) {
	active, passive := connected(t, nil, 1<<20)
	_, data, src := active.source(t, 4096)
	src.(*fileSource).cached = false
	active.introduce(t, passive.region)
	r := &active.qp.(*queuePair).conn.Load().tx.data.reader
	read := r.fn
	for _, cold := range []bool{false, true} {
		clear(passive.mem)
		var word [8]byte
		copy(word[:], "meantime")
		r.fn = func(fd uintptr) {
			r.fn = read
			active.post(t, rdma.Request{Op: rdma.OpWrite, ID: 2, Flags: rdma.FlagInline, Inline: word[:], Remote: passive.at(8192)})
			if read(fd); cold {
				r.n, r.err = -1, unix.EAGAIN
			}
		}
		_, err := active.qp.Post([]rdma.Request{{
			Op: rdma.OpWrite, ID: 1, Flags: rdma.FlagOnlyIfCached, File: src, FileLength: 4096, Remote: passive.at(0),
		}})
		if cold != errors.Is(err, rdma.StatusDeviceBusy) {
			t.Fatal(err)
		}
		if !cold {
			if res := next(t, active.icq); res.ID != 1 || res.Status != rdma.StatusSuccess || res.Bytes != 4096 {
				t.Errorf("result %+v", res)
			}
			if !bytes.Equal(passive.mem[:4096], data) {
				t.Error("the bytes differ")
			}
		}
		if res := next(t, active.icq); res.ID != 2 || res.Status != rdma.StatusSuccess {
			t.Errorf("result %+v", res)
		}
		active.deliver(t, passive)
		if string(passive.mem[8192:8200]) != "meantime" {
			t.Error("a concurrent post is lost")
		}
	}
}

// Among cached writes that are posted together, the writes before the first impossible
// one are done. A write is impossible if its pages are not in memory, or if its target
// cannot be accessed directly.
func TestFileRunStopsAtFirstImpossibleWrite(t *testing.T) {
	const page, count = 4096, 6
	active, passive := connected(t, nil, 1<<20)
	_, data, src := active.source(t, count*page)
	src.(*fileSource).cached = false
	active.introduce(t, passive.region)
	r := &active.inside().tx.data.reader
	read := r.fn
	defer func() { r.fn = read }()
	for good := range count {
		for what, hinder := range map[string]func(reqs []rdma.Request){
			"cold": func([]rdma.Request) {
				r.fn = func(fd uintptr) {
					if read(fd); r.off == int64(good*page) {
						r.n, r.err = -1, unix.EAGAIN
					}
				}
			},
			"out of bounds": func(reqs []rdma.Request) { reqs[good].FileOffset = -1 },
		} {
			clear(passive.mem)
			reqs := make([]rdma.Request, count)
			for i := range reqs {
				reqs[i] = rdma.Request{
					Op: rdma.OpWrite, Flags: rdma.FlagOnlyIfCached | rdma.FlagSilentSuccess,
					File: src, FileOffset: int64(i * page), FileLength: page, Remote: passive.at(2 * i * page),
				}
			}
			hinder(reqs)
			n, err := active.qp.Post(reqs)
			r.fn = read
			if n != good || err == nil {
				t.Errorf("%s: took %d, not %d: %v", what, n, good, err)
			}
			for i := range good {
				if !bytes.Equal(passive.mem[2*i*page:][:page], data[i*page:][:page]) {
					t.Errorf("%s: part %d of %d differs", what, i, good)
				}
			}
			if rest := passive.mem[2*(good+1)*page:][:page]; !bytes.Equal(rest, make([]byte, page)) {
				t.Errorf("%s: part %d was written", what, good+1)
			}
		}
	}
	active.deliver(t, passive)
}

// Objects that are not regular files are refused, and invalid parts of files too. Source:
// [ND Adapter]
func TestInvalidFilesAreRefused(t *testing.T) {
	active, passive := connected(t, nil, 4096)
	_, _, src := active.source(t, 100)
	dir := must[*os.File](t)(os.Open(t.TempDir()))
	defer dir.Close()
	for _, f := range []*os.File{nil, dir} {
		if _, err := active.a.RegisterFile(t.Context(), f); !errors.Is(err, rdma.StatusInvalidParameter) {
			t.Errorf("register %v: %v", f, err)
		}
	}
	base := rdma.Request{Op: rdma.OpWrite, File: src, FileLength: 8, Remote: passive.at(0)}
	for what, c := range map[string]struct {
		change func(*rdma.Request)
		want   rdma.Status
	}{
		"negative offset":   {func(r *rdma.Request) { r.FileOffset = -1 }, rdma.StatusInvalidParameter},
		"negative length":   {func(r *rdma.Request) { r.FileLength = -1 }, rdma.StatusInvalidParameter},
		"too long":          {func(r *rdma.Request) { r.FileLength = softrdma.MaxTransfer + 1 }, rdma.StatusBufferOverflow},
		"end beyond 2^63":   {func(r *rdma.Request) { r.FileOffset = 1<<63 - 4 }, rdma.StatusBufferOverflow},
		"inline":            {func(r *rdma.Request) { r.Flags |= rdma.FlagInline }, rdma.StatusInvalidParameterMix},
		"cached, no file":   {func(r *rdma.Request) { r.File = nil; r.Flags |= rdma.FlagOnlyIfCached }, rdma.StatusInvalidParameterMix},
		"another adapter's": {func(r *rdma.Request) { r.File = &fileSource{} }, rdma.StatusInvalidParameter},
	} {
		r := base
		c.change(&r)
		if n, err := active.qp.Post([]rdma.Request{r}); n != 0 || rdma.StatusOf(err) != c.want {
			t.Errorf("%s: took %d, %v", what, n, err)
		}
	}
	src.Close()
	src.Close()
	if _, err := active.qp.Post([]rdma.Request{base}); !errors.Is(err, rdma.StatusAccessViolation) {
		t.Errorf("a closed source: %v", err)
	}
	active.deliver(t, passive)
}
