package vfs_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"lwio/vfs"
)

// benchFile is an open file of 1 MiB.
func benchFile(b *testing.B, change ...func(*vfs.OpenRequest)) (*site, *vfs.Open) {
	s := newSite(b)
	if err := os.WriteFile(s.host("file"), make([]byte, 1<<20), 0o644); err != nil {
		b.Fatal(err)
	}
	o := s.mustOpen("file", change...)
	if err := o.Acquire(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(o.Release)
	return s, o
}

// A read from the page cache, beside os.File's, which is the floor.
func BenchmarkRead(b *testing.B) {
	_, o := benchFile(b)
	for _, size := range []int{4 << 10, 64 << 10} {
		p := make([]byte, size)
		for _, c := range []struct {
			name string
			f    func(off int64) error
		}{
			{"floor", func(off int64) error { _, err := o.File().ReadAt(p, off); return err }},
			{"ReadAt", func(off int64) error { _, err := o.ReadAt(p, off); return err }},
			{"ReadCached", func(off int64) error {
				_, ok, err := o.ReadCached(p, off)
				if !ok {
					b.Fatal("not cached")
				}
				return err
			}},
		} {
			b.Run(fmt.Sprintf("%s/%dK", c.name, size>>10), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				off := int64(0)
				for b.Loop() {
					if err := c.f(off); err != nil {
						b.Fatal(err)
					}
					off = (off + int64(size)) & (1<<20 - 1)
				}
			})
		}
	}
}

func BenchmarkWriteAt4K(b *testing.B) {
	_, o := benchFile(b)
	p := make([]byte, 4<<10)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := o.WriteAt(p, 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAcquireRelease(b *testing.B) {
	_, o := benchFile(b)
	b.ReportAllocs()
	for b.Loop() {
		if o.Acquire() == nil {
			o.Release()
		}
	}
}

func BenchmarkByResumeKey(b *testing.B) {
	s, o := benchFile(b)
	for b.Loop() {
		if _, err := s.ByResumeKey(o.ResumeKey(), "alice"); err != nil {
			b.Fatal(err)
		}
	}
}

// Open and close of a file two directories down, beside the same by os.Root,
// which is the floor.
func BenchmarkOpenClose(b *testing.B) {
	s := newSite(b)
	s.put("a/", "a/b/", "a/b/file")
	b.Run("floor", func(b *testing.B) {
		root, err := os.OpenRoot(s.dir)
		if err != nil {
			b.Fatal(err)
		}
		defer root.Close()
		b.ReportAllocs()
		for b.Loop() {
			f, err := root.Open("a/b/file")
			if err != nil {
				b.Fatal(err)
			}
			f.Close()
		}
	})
	for name, a := range map[string]vfs.Access{"read": vfs.GenericRead, "all": vfs.GenericAll} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				closed(b, s.mustOpen("a/b/file", access(a)))
			}
		})
	}
	b.Run("create+delete", func(b *testing.B) {
		for b.Loop() {
			closed(b, s.mustOpen("a/b/new", disposition(vfs.Create), options(vfs.DeleteOnClose)))
		}
	})
}

// A whole file of 4 KiB that replaces another one: the work of vfs for Client.WriteFile.
func BenchmarkPublish(b *testing.B) {
	s, data := newSite(b), make([]byte, 4096)
	s.put("a/", "a/file")
	b.ReportAllocs()
	for b.Loop() {
		o := s.mustOpen("a/.part", disposition(vfs.Create))
		err := errors.Join(o.SetDeleteOnClose(true), o.Acquire())
		if err == nil {
			_, err = o.WriteAt(data, 0)
			o.Release()
		}
		if err == nil {
			err = o.Publish("a/file", true)
		}
		if err != nil {
			b.Fatal(err)
		}
		closed(b, o)
	}
}

func BenchmarkReadDir(b *testing.B) {
	s := newSite(b)
	const entries = 1000
	for i := range entries {
		s.put(fmt.Sprintf("file%d", i))
	}
	o := s.mustOpen("")
	for b.Loop() {
		n := 0
		if err := o.ReadDir(true, func(*vfs.FileInfo) bool { n++; return true }); err != nil || n != entries+2 {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/entries, "ns/entry")
}

// BenchmarkLockArray is an array of locks of which the last is refused, in a file with many.
func BenchmarkLockArray(b *testing.B) {
	const n = 8000
	s := newSite(b)
	s.put("f")
	holders := []*vfs.Open{s.mustOpen("f"), s.mustOpen("f")}
	for i := range uint64(n) {
		if err := holders[i%2].TryLock(shared(1000+i, 1)); err != nil {
			b.Fatal(err)
		}
	}
	o := s.mustOpen("f")
	var array []vfs.Lock
	for i := range uint64(63) {
		array = append(array, exclusive(i, 1))
	}
	array = append(array, exclusive(1000, 1))
	for b.Loop() {
		if o.TryLock(array...) == nil {
			b.Fatal("granted")
		}
	}
	closed(b, o, holders[0], holders[1])
}

// BenchmarkLockClose is the close of an open with many locks, for which many others wait.
func BenchmarkLockClose(b *testing.B) {
	const n = 2000
	s := newSite(b)
	s.put("f")
	holder, waiter := s.mustOpen("f"), s.mustOpen("f")
	for i := range uint64(n) {
		if err := holder.TryLock(vfs.Lock{Range: vfs.Range{Off: 2 * i, Len: 1}, Exclusive: i == 0}); err != nil {
			b.Fatal(err)
		}
		queue(b, waiter, shared(0, 4*n))
	}
	for b.Loop() {
		b.StopTimer()
		o := s.mustOpen("f")
		for i := range uint64(n) {
			if err := o.TryLock(shared(2*i+1, 1)); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		closed(b, o)
	}
	closed(b, holder, waiter)
}

// An array of thousands of unlocks, as in one request.
func BenchmarkUnlockArray(b *testing.B) {
	s := newSite(b)
	s.put("f")
	o := s.mustOpen("f")
	defer closed(b, o)
	const n = 4096
	locks, ranges := make([]vfs.Lock, n), make([]vfs.Range, n)
	for i := range locks {
		locks[i] = shared(uint64(2*i), 1)
		ranges[i] = locks[i].Range
	}
	for b.Loop() {
		if err := errors.Join(o.TryLock(locks...), o.Unlock(ranges...)); err != nil {
			b.Fatal(err)
		}
	}
}
