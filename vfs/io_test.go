package vfs_test

import (
	"bytes"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/vfs"
)

// Source: [OP-92a] [OP-92b] [OP-92c] [LWIO §Read]
func TestReadAtReturnsShortOnlyAtEOF(t *testing.T) {
	s := newSite(t)
	s.put("file") // "content of file", 15 bytes
	o := s.mustOpen("file", access(vfs.GenericRead))
	for _, c := range []struct {
		name string
		n    int
		off  int64
		want string
		st   ntstatus.Status
	}{
		{"all", 15, 0, "content of file", 0},
		{"a part", 7, 0, "content", 0},
		{"up to the end", 4, 11, "file", 0},
		{"across the end", 100, 11, "file", 0},
		{"at the end", 1, 15, "", ntstatus.EndOfFile},
		{"after the end", 1, 1 << 40, "", ntstatus.EndOfFile},
		{"nothing", 0, 3, "", 0},
		{"nothing, at the end", 0, 15, "", 0},
		{"negative", 1, -1, "", ntstatus.InvalidParameter},
		{"most negative", 1, math.MinInt64, "", ntstatus.InvalidParameter},
		{"last byte of all", 1, math.MaxInt64 - 1, "", ntstatus.EndOfFile},
		{"beyond 2^63", 2, math.MaxInt64 - 1, "", ntstatus.InvalidParameter},
		{"far beyond 2^63", 1 << 20, math.MaxInt64 - 9, "", ntstatus.InvalidParameter},
	} {
		held(t, o, func() {
			p := make([]byte, c.n)
			n, err := o.ReadAt(p, c.off)
			wantStatus(t, c.name, err, c.st)
			if string(p[:n]) != c.want {
				t.Errorf("%s: %q, want %q", c.name, p[:n], c.want)
			}
			p = make([]byte, c.n)
			n, ok, err := o.ReadCached(p, c.off)
			if !ok {
				return // to be read by ReadAt, then
			}
			wantStatus(t, c.name+", cached", err, c.st)
			if string(p[:n]) != c.want {
				t.Errorf("%s, cached: %q, want %q", c.name, p[:n], c.want)
			}
		})
	}
}

// Source: [OP-57] [OP-58b]
func TestIOWithoutTheRightIsRefused(t *testing.T) {
	s := newSite(t)
	s.put("file", "dir/")
	p := make([]byte, 4)
	r := s.mustOpen("file", access(vfs.GenericRead))
	w := s.mustOpen("file", access(vfs.GenericWrite))
	d := s.mustOpen("dir")
	held(t, r, func() {
		_, err := r.WriteAt(p, 0)
		wantStatus(t, "write", err, ntstatus.AccessDenied)
		wantStatus(t, "truncate", r.Truncate(0), ntstatus.AccessDenied)
		wantStatus(t, "sync", r.Sync(), ntstatus.AccessDenied)
		wantStatus(t, "times", r.SetTimes(vfs.Times{Modified: time.Now()}), ntstatus.AccessDenied)
		wantStatus(t, "attributes", r.SetAttributes(vfs.AttrReadOnly), ntstatus.AccessDenied)
	})
	held(t, w, func() {
		_, err := w.ReadAt(p, 0)
		wantStatus(t, "read", err, ntstatus.AccessDenied)
		_, ok, err := w.ReadCached(p, 0)
		wantStatus(t, "cached read", err, ntstatus.AccessDenied)
		if !ok {
			t.Error("a refused read would have to wait")
		}
	})
	held(t, d, func() {
		_, err := d.ReadAt(p, 0)
		wantStatus(t, "read a directory", err, ntstatus.InvalidDeviceRequest)
		_, err = d.WriteAt(p, 0)
		wantStatus(t, "write a directory", err, ntstatus.InvalidDeviceRequest)
		wantStatus(t, "truncate a directory", d.Truncate(0), ntstatus.InvalidParameter)
		wantStatus(t, "sync a directory", d.Sync(), ntstatus.Success)
	})
	_, err := r.ReadAt(p, 0)
	wantStatus(t, "read without a reference", err, ntstatus.FileClosed)
	if b, err := os.ReadFile(s.host("file")); err != nil || string(b) != "content of file" {
		t.Errorf("file is %q, %v", b, err)
	}
}

// Source: [OP-92b] [OP-92c] [OP-92f] [LWIO §Write]
func TestWriteAtRefusesInvalidOffsets(t *testing.T) {
	for _, opt := range []vfs.Options{0, vfs.WriteThrough, vfs.NoIntermediateBuffering} {
		s := newSite(t)
		o := s.mustOpen("new", disposition(vfs.Create), options(opt))
		held(t, o, func() {
			for _, c := range []struct {
				data string
				off  int64
				st   ntstatus.Status
			}{
				{"hello", 0, 0},
				{"world", 6, 0},
				{"", 3, 0},
				{"x", -1, ntstatus.InvalidParameter},
				{"xy", math.MaxInt64 - 1, ntstatus.InvalidParameter},
				{"H", 0, 0},
			} {
				n, err := o.WriteAt([]byte(c.data), c.off)
				wantStatus(t, c.data, err, c.st)
				if err == nil && n != len(c.data) {
					t.Errorf("wrote %d of %q", n, c.data)
				}
			}
			// Most file systems refuse this; one in memory makes a file of 2^63 bytes, which no
			// test must read.
			if _, err := o.WriteAt([]byte("x"), math.MaxInt64-1); err == nil {
				wantStatus(t, "truncate", o.Truncate(11), ntstatus.Success)
			}
		})
		if info, err := o.Stat(); err != nil || info.Size != 11 {
			t.Fatalf("size %d, %v", info.Size, err)
		}
		wantStatus(t, "sync", o.Sync(), ntstatus.Success)
		if b, err := os.ReadFile(s.host("new")); err != nil || string(b) != "Hello\x00world" {
			t.Errorf("options %x: file is %q, %v", opt, b, err)
		}
		if o.Options() != opt {
			t.Errorf("options %x, want %x", o.Options(), opt)
		}
	}
}

// Memory in pieces is written as if it were one, also if that takes several system calls.
//
// Source: [OP-92c] [OP-92f] [LWIO §Write]
func TestWriteVecWritesPiecesAsOne(t *testing.T) {
	for _, opt := range []vfs.Options{0, vfs.WriteThrough} {
		s := newSite(t)
		o := s.mustOpen("new", disposition(vfs.Create), options(opt))
		another := s.mustOpen("new")
		wantStatus(t, "lock", another.TryLock(vfs.Lock{Range: vfs.Range{Off: 5000, Len: 1}, Exclusive: true}), ntstatus.Success)
		for _, c := range []struct {
			pieces, off int64
			st          ntstatus.Status
		}{
			{0, 9, 0},
			{1, 0, 0},
			{5, 10, 0},
			{300, 100, 0},
			{3, -1, ntstatus.InvalidParameter},
			{4, math.MaxInt64 - 5, ntstatus.InvalidParameter},
			{4, 4995, ntstatus.FileLockConflict},
		} {
			var pieces [][]byte
			var want []byte
			for i := range c.pieces {
				p := bytes.Repeat([]byte{byte(i) + 1}, int(i%3+1))
				pieces, want = append(pieces, p), append(want, p...)
			}
			var n int
			var err error
			held(t, o, func() { n, err = o.WriteVec(pieces, c.off) })
			wantStatus(t, "write", err, c.st)
			if c.st != 0 {
				want = nil
			}
			if n != len(want) {
				t.Errorf("wrote %d of %d bytes", n, len(want))
			}
			if b, err := os.ReadFile(s.host("new")); len(want) > 0 && (err != nil || !bytes.Equal(b[c.off:][:n], want)) {
				t.Errorf("options %x: %d pieces at %d came as another content, %v", opt, c.pieces, c.off, err)
			}
		}
		_, err := o.WriteVec([][]byte{{1}}, 0)
		wantStatus(t, "write without a reference", err, ntstatus.FileClosed)
	}
}

// Source: [MS-FSA 2.1.5.3]
func TestAppendOnlyOpenIgnoresOffset(t *testing.T) {
	s := newSite(t)
	s.put("file")
	o := s.mustOpen("file", access(vfs.AppendData))
	held(t, o, func() {
		for _, off := range []int64{0, 1 << 30} {
			if n, err := o.WriteAt([]byte("!"), off); n != 1 || err != nil {
				t.Errorf("append: %d, %v", n, err)
			}
		}
	})
	wantStatus(t, "truncate", o.Truncate(0), ntstatus.AccessDenied)
	if b, err := os.ReadFile(s.host("file")); err != nil || string(b) != "content of file!!" {
		t.Errorf("file has %d bytes and begins with %q, %v", len(b), b[:min(len(b), 40)], err)
	}
}

// Source: [MS-FSCC 2.4.14]
func TestTruncateGrowsAndShrinks(t *testing.T) {
	s := newSite(t)
	s.put("file")
	o := s.mustOpen("file")
	for _, size := range []int64{7, 100, 0, 1 << 30} {
		wantStatus(t, "truncate", o.Truncate(size), ntstatus.Success)
		if info, err := o.Stat(); err != nil || info.Size != size {
			t.Errorf("size %d, %v, want %d", info.Size, err, size)
		}
	}
	wantStatus(t, "negative", o.Truncate(-1), ntstatus.InvalidParameter)
	// The file system limits the size.
	if err := o.Truncate(math.MaxInt64); err != nil {
		wantStatus(t, "too large", err, ntstatus.FileTooLarge)
	}
}

// Source: [MS-FSCC 2.4.7]
func TestSetTimesShowsInStat(t *testing.T) {
	s := newSite(t)
	s.put("dir/", "dir/file")
	o, d := s.mustOpen("dir/file"), s.mustOpen("dir")
	want := time.Date(2001, 2, 3, 4, 5, 6, 789000, time.UTC)
	wantStatus(t, "times", o.SetTimes(vfs.Times{Modified: want}), ntstatus.Success)
	wantStatus(t, "no times", o.SetTimes(vfs.Times{Created: want}), ntstatus.Success)
	info, err := o.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if !info.Modified.Equal(want) || info.Accessed.Equal(want) || info.Accessed.IsZero() {
		t.Errorf("times %v and %v", info.Modified, info.Accessed)
	}
	wantStatus(t, "times", o.SetTimes(vfs.Times{Accessed: want.Add(time.Hour)}), ntstatus.Success)
	if info, err = o.Stat(); err != nil || !info.Accessed.Equal(want.Add(time.Hour)) || !info.Modified.Equal(want) {
		t.Errorf("times %v and %v, %v", info.Modified, info.Accessed, err)
	}
	if info.Name != "file" || info.Size != 19 || info.Dir || info.Links != 1 || info.ID == 0 || info.Attributes != vfs.AttrNormal {
		t.Errorf("%+v", info)
	}
	di, err := d.Stat()
	if err != nil || di.Name != "dir" || !di.Dir || di.Attributes != vfs.AttrDirectory || di.ID == info.ID || !d.IsDir() {
		t.Errorf("%+v, %v", di, err)
	}
}

// Source: [MS-FSCC 2.6]
func TestReadOnlyAttributeForbidsWriting(t *testing.T) {
	s := newSite(t)
	s.put("file", "dir/")
	o, d := s.mustOpen("file"), s.mustOpen("dir")
	for _, c := range []struct {
		o    *vfs.Open
		set  uint32
		st   ntstatus.Status
		want uint32
	}{
		{o, vfs.AttrReadOnly, 0, vfs.AttrReadOnly},
		{o, 0, 0, vfs.AttrReadOnly},
		{o, vfs.AttrReadOnly | vfs.AttrHidden, 0, vfs.AttrReadOnly},
		{o, vfs.AttrArchive, 0, vfs.AttrNormal},
		{o, vfs.AttrDirectory, ntstatus.InvalidParameter, vfs.AttrNormal},
		{o, 1 << 16, ntstatus.InvalidParameter, vfs.AttrNormal},
		{d, vfs.AttrReadOnly | vfs.AttrDirectory, 0, vfs.AttrDirectory},
		{d, vfs.AttrTemporary, ntstatus.InvalidParameter, vfs.AttrDirectory},
	} {
		wantStatus(t, "set", c.o.SetAttributes(c.set), c.st)
		if info, err := c.o.Stat(); err != nil || info.Attributes != c.want {
			t.Errorf("after setting %x: %x, %v, want %x", c.set, info.Attributes, err, c.want)
		}
	}
}

// The data path does not allocate. [OP-92a]
func TestIODoesNotAllocate(t *testing.T) {
	s := newSite(t)
	s.put("file")
	o := s.mustOpen("file")
	d := s.mustOpen("file", options(vfs.WriteThrough))
	p, vec := make([]byte, 15), new([2][]byte)
	held(t, d, func() {
		// Allocations of other goroutines are less than one a run.
		for name, f := range map[string]func(){
			"ReadAt":        func() { o.ReadAt(p, 0) },
			"ReadCached":    func() { o.ReadCached(p, 0) },
			"end of file":   func() { o.ReadAt(p, 99) },
			"WriteAt":       func() { o.WriteAt(p, 0) },
			"write-through": func() { d.WriteAt(p, 0) },
			"WriteVec":      func() { vec[0], vec[1] = p, p; o.WriteVec(vec[:], 0) },
		} {
			n := testing.AllocsPerRun(100, func() {
				if o.Acquire() == nil {
					f()
					o.Release()
				}
			})
			if n != 0 && !raceEnabled {
				t.Errorf("%s: %v allocations", name, n)
			}
		}
	})
}

// A write to a full disk fails with the count of written bytes.
func TestDiskFullReportsWrittenBytes(t *testing.T) {
	const room = 10
	s := newSite(t, func(c *vfs.Config) {
		c.Shares[0].Backend = &smallDisk{Backend: c.Shares[0].Backend, room: room}
	})
	o := s.mustOpen("new", disposition(vfs.Create))
	held(t, o, func() {
		n, err := o.WriteAt(bytes.Repeat([]byte("x"), 2*room), 0)
		wantStatus(t, "write", err, ntstatus.DiskFull)
		if n != room || !strings.Contains(err.Error(), "data/new") {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
	wantStatus(t, "truncate", o.Truncate(2*room), ntstatus.DiskFull)
}

// A failed write of an open that writes through is reported once, a plain write and a refused one not.
func TestFailureOfWriteThroughIsReported(t *testing.T) {
	for _, c := range []struct {
		name    string
		options vfs.Options
		off     int64
		want    bool
	}{
		{"write-through", vfs.WriteThrough, 0, true},
		{"plain", 0, 0, false},
		{"beyond the largest file", vfs.WriteThrough, math.MaxInt64 - 100, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, func(cfg *vfs.Config) {
				if c.off == 0 {
					cfg.Shares[0].Backend = &smallDisk{Backend: cfg.Shares[0].Backend}
				}
			})
			var failed []*vfs.Open
			s.FS.OnThroughFailure(func(o *vfs.Open) { failed = append(failed, o) })
			o := s.mustOpen("new", disposition(vfs.Create), func(r *vfs.OpenRequest) { r.Options |= c.options })
			held(t, o, func() {
				if _, err := o.WriteAt([]byte("x"), c.off); err == nil {
					t.Error("the write succeeds")
				}
				if c.want && (len(failed) != 1 || failed[0] != o) || !c.want && failed != nil {
					t.Errorf("%d failures are reported", len(failed))
				}
				if _, err := o.WriteVec([][]byte{{1}, {2}}, c.off); err == nil {
					t.Error("the vectored write succeeds")
				}
			})
			if (len(failed) == 2) != c.want {
				t.Errorf("%d failures are reported", len(failed))
			}
		})
	}
}
