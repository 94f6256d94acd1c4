package statefile

import (
	"path/filepath"
	"testing"
)

// recordSize is the size of the record of an open, in bytes.
const recordSize = 120

// openBench opens a log on the file system of the test.
func openBench(b *testing.B, dir string) *Log {
	b.Helper()
	l, err := Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := l.Close(); err != nil {
			b.Error(err)
		}
	})
	return l
}

// An open and its close: one record is written and removed.
func BenchmarkPutAndDrop(b *testing.B) {
	l := openBench(b, filepath.Join(b.TempDir(), "state"))
	var batch Batch
	value := make([]byte, recordSize)
	b.ReportAllocs()
	for i := uint64(1); b.Loop(); i++ {
		batch.Reset()
		batch.Put(Key{i, 0}, value)
		if err := l.Apply(&batch); err != nil {
			b.Fatal(err)
		}
		if err := l.Drop(i); err != nil {
			b.Fatal(err)
		}
	}
}

// A lock and its release, in an open with other locks: the lock and its sequence are written together.
func BenchmarkLockAndUnlock(b *testing.B) {
	l := openBench(b, filepath.Join(b.TempDir(), "state"))
	fill(b, l, 1, 10)
	var batch Batch
	lock, sequence := make([]byte, 17), make([]byte, 2)
	b.ReportAllocs()
	for i := uint64(100); b.Loop(); i++ {
		batch.Reset()
		batch.Put(Key{1, i}, lock)
		batch.Put(Key{1, 50}, sequence)
		if err := l.Apply(&batch); err != nil {
			b.Fatal(err)
		}
		batch.Reset()
		batch.Delete(Key{1, i})
		batch.Put(Key{1, 50}, sequence)
		if err := l.Apply(&batch); err != nil {
			b.Fatal(err)
		}
	}
}

// fill puts opens with locks into l.
func fill(b testing.TB, l *Log, opens, locks int) {
	b.Helper()
	var batch Batch
	value := make([]byte, recordSize)
	for i := range opens {
		batch.Reset()
		batch.Put(Key{uint64(i) + 1, 0}, value)
		if err := l.Apply(&batch); err != nil {
			b.Fatal(err)
		}
		for k := range locks {
			batch.Reset()
			batch.Put(Key{uint64(i) + 1, uint64(k) + 1}, value[:17])
			if err := l.Apply(&batch); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// The start of a server with 10,000 opens and 100,000 locks.
func BenchmarkLoad(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "state")
	l, err := Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	fill(b, l, 10_000, 10)
	size := l.Stats().FileBytes
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		l, err := Open(dir)
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		if err := l.Each(func(Key, []byte) error { n++; return nil }); err != nil || n != 110_000 {
			b.Fatal(n, err)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(size), "file-bytes")
}
