package statefile

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// floorFrame is the size of the frame of BenchmarkLockAndUnlock's lock, in bytes.
const floorFrame = (frameHeader + putSize + 17 + putSize + 2 + 7) &^ 7

// floorFile returns a file with reserved space.
func floorFile(b *testing.B) *os.File {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "floor"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	if err := unix.Fallocate(int(f.Fd()), 0, 0, floorSize); err != nil {
		b.Fatal(err)
	}
	return f
}

// floorSize is the size of a floor file, in bytes; it is written again and again.
const floorSize = 4 << 20

// The floor of a batch: one pwrite of the same size.
func BenchmarkFloorPwrite(b *testing.B) {
	f := floorFile(b)
	p := make([]byte, floorFrame)
	off := int64(0)
	for b.Loop() {
		if _, err := f.WriteAt(p, off); err != nil {
			b.Fatal(err)
		}
		if off += floorFrame; off > floorSize-floorFrame {
			off = 0
		}
	}
}

// The floor of a batch in mapped memory: one copy of the same size.
func BenchmarkFloorMapped(b *testing.B) {
	f := floorFile(b)
	m, err := unix.Mmap(int(f.Fd()), 0, floorSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := unix.Munmap(m); err != nil {
			b.Error(err)
		}
	}()
	p := make([]byte, floorFrame)
	off := 0
	for b.Loop() {
		copy(m[off:], p)
		if off += floorFrame; off > floorSize-floorFrame {
			off = 0
		}
	}
}
