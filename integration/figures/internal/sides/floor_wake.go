package sides

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	futexWait = 0
	futexWake = 1
)

// floorFutex wakes a thread that sleeps on a futex, and sleeps on another.
func floorFutex(s *side) error {
	mem, own, other, err := s.common()
	if err != nil {
		return err
	}
	var last uint64
	send := func() error {
		wordAt(mem, own).Store(last)
		// A raw system call, because the thread must block.
		_, _, errno := unix.RawSyscall6(unix.SYS_FUTEX, uintptr(pointerTo(mem[own:])), futexWake, 1, 0, 0, 0)
		return asError(errno)
	}
	receive := func() error { return sleepOn(mem[other:], last) }
	return s.pingPong(&last, send, receive)
}

// sleepOn sleeps until the first word, whose low half is the futex, has a value.
func sleepOn(mem []byte, want uint64) error {
	word := wordAt(mem, 0)
	for {
		got := word.Load()
		if got == want {
			return nil
		}
		_, _, errno := unix.RawSyscall6(unix.SYS_FUTEX, uintptr(pointerTo(mem)), futexWait, uintptr(uint32(got)), 0, 0, 0)
		if errno != 0 && errno != unix.EAGAIN && errno != unix.EINTR {
			return errno
		}
	}
}

// pingPong sends and receives a number that grows with each round trip.
func (s *side) pingPong(last *uint64, send, receive func() error) error {
	return s.phases(func(ops int) error {
		for range ops {
			*last++
			if err := s.turn(send, receive); err != nil {
				return err
			}
		}
		return nil
	})
}

func asError(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// floorEventfd sleeps in the runtime's network poller on an eventfd, which the other side
// writes. A word counts the messages, so the eventfd is never read: the poller reports
// every write.
func floorEventfd(s *side) error {
	mem, o, w, err := s.common()
	if err != nil {
		return err
	}
	mine, peers := uintptr(4), uintptr(5)
	if !s.Active {
		mine, peers = peers, mine
	}
	if err := unix.SetNonblock(int(mine), true); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	conn, err := os.NewFile(mine, "event").SyscallConn()
	if err != nil {
		return err
	}
	own, other := wordAt(mem, o), wordAt(mem, w)
	one := binary.NativeEndian.AppendUint64(nil, 1)
	var last uint64
	woken := func(uintptr) bool { return other.Load() == last }
	send := func() error {
		own.Store(last)
		_, _, errno := unix.RawSyscall(unix.SYS_WRITE, peers, uintptr(pointerTo(one)), 8)
		return asError(errno)
	}
	receive := func() error { return conn.Read(woken) }
	return s.pingPong(&last, send, receive)
}
