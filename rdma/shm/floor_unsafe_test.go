//go:build linux

package shm

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"lwio/rdma/shm/internal/ring"
)

// floor is the minimum that two processes need to answer each other: one word each in
// shared memory, and one eventfd each.
type floor struct {
	own, other *atomic.Uint32
	ring       int             // the other side's eventfd
	event      syscall.RawConn // this side's eventfd
	mem        []byte
	f          *os.File
	last       uint32

	fn    func(fd uintptr) bool
	word  [8]byte
	scrap [8]byte
}

// floors are the ways in which the sides wait.
var floors = map[string]func(*floor) func() error{
	"spin":    func(f *floor) func() error { return f.spin },
	"futex":   func(f *floor) func() error { return f.futex },
	"eventfd": func(f *floor) func() error { return f.poller },
}

// newFloor makes one side. fd is the shared memory, event this side's eventfd, ring the
// other side's eventfd.
func newFloor(fd, event, ring int, first bool) (*floor, error) {
	if err := unix.SetNonblock(event, true); err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, err
	}
	f := &floor{ring: ring, mem: mem, f: os.NewFile(uintptr(event), "event")}
	f.own, f.other = (*atomic.Uint32)(unsafe.Pointer(&mem[0])), (*atomic.Uint32)(unsafe.Pointer(&mem[512]))
	if !first {
		f.own, f.other = f.other, f.own
	}
	f.event, err = f.f.SyscallConn()
	binary.NativeEndian.PutUint64(f.word[:], 1)
	f.fn = f.attempt
	return f, err
}

func (f *floor) spin() error {
	for f.other.Load() != f.last {
	}
	return nil
}

func (f *floor) futex() error {
	for v := f.other.Load(); v != f.last; v = f.other.Load() {
		ring.FutexWait(f.other, v)
	}
	return nil
}

// poller sleeps in the network poller until the other side has answered.
func (f *floor) poller() error {
	return f.event.Read(f.fn)
}

func (f *floor) attempt(fd uintptr) bool {
	if f.other.Load() == f.last {
		_, _ = unix.Read(int(fd), f.scrap[:])
		return true
	}
	return false
}

// say answers the other side.
func (f *floor) say(way string) {
	f.own.Store(f.last)
	switch way {
	case "futex":
		ring.FutexWake(f.own)
	case "eventfd":
		_, _ = unix.Write(f.ring, f.word[:])
	}
}

// childFloor answers until its input ends, which ends the process.
func childFloor(way string) error {
	f, err := newFloor(3, 5, 4, false)
	if err != nil {
		return err
	}
	for wait := floors[way](f); ; {
		f.last++
		if err := wait(); err != nil {
			return err
		}
		f.say(way)
	}
}

// benchmarkFloor exchanges words with another process at the minimum cost.
func benchmarkFloor(b *testing.B, way string) {
	mem := must[int](b)(unix.MemfdCreate("floor", unix.MFD_CLOEXEC))
	defer unix.Close(mem)
	if err := unix.Ftruncate(mem, 4096); err != nil {
		b.Fatal(err)
	}
	mine := must[int](b)(unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK))
	its := must[int](b)(unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK))
	defer unix.Close(its)
	cmd := exec.Command(os.Args[0], "", "0", "0")
	cmd.Env = append(os.Environ(), childVariable+"=floor-"+way)
	cmd.Stderr = os.Stderr
	for _, fd := range []int{mem, mine, its} {
		f := os.NewFile(uintptr(must[int](b)(unix.Dup(fd))), fmt.Sprint(fd))
		defer f.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	f, err := newFloor(mem, mine, its, true)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _, _ = f.f.Close(), unix.Munmap(f.mem) }()
	wait := floors[way](f)
	b.ReportAllocs()
	for b.Loop() {
		f.last++
		f.say(way)
		if err := wait(); err != nil {
			b.Fatal(err)
		}
	}
}

// wordAt returns the 8-byte word at an offset of mem, which is a multiple of 8.
func wordAt(mem []byte, off int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&mem[off : off+8][0]))
}
