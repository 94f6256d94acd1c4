package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

const (
	futexWait = 0
	futexWake = 1
)

// floorFutex wakes a thread that sleeps on a futex, and sleeps on another.
func floorFutex(s *side) error {
	mem, err := common()
	if err != nil {
		return err
	}
	if err := s.meet(mem); err != nil {
		return err
	}
	own, other := s.words()
	var last uint64
	say := func() error {
		wordAt(mem, own).Store(last)
		// No scheduler between: the thread is blocked, and meant to be.
		_, _, errno := unix.RawSyscall6(unix.SYS_FUTEX, uintptr(pointerTo(mem[own:])), futexWake, 1, 0, 0, 0)
		return asError(errno)
	}
	listen := func() error { return sleepOn(mem[other:], last) }
	return s.phases(func(ops int) error {
		for range ops {
			last++
			if err := s.turn(say, listen); err != nil {
				return err
			}
		}
		return nil
	})
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

func asError(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// floorEventfd sleeps in the runtime's network poller on an eventfd, which the
// other side writes. What has happened stands in a word, so that nobody reads the
// eventfd: the poller tells of every write.
func floorEventfd(s *side) error {
	mem, err := common()
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
	if err := s.meet(mem); err != nil {
		return err
	}
	o, w := s.words()
	own, other := wordAt(mem, o), wordAt(mem, w)
	one := binary.NativeEndian.AppendUint64(nil, 1)
	var last uint64
	awake := func(uintptr) bool { return other.Load() == last }
	say := func() error {
		own.Store(last)
		_, _, errno := unix.RawSyscall(unix.SYS_WRITE, peers, uintptr(pointerTo(one)), 8)
		return asError(errno)
	}
	listen := func() error { return conn.Read(awake) }
	return s.phases(func(ops int) error {
		for range ops {
			last++
			if err := s.turn(say, listen); err != nil {
				return err
			}
		}
		return nil
	})
}

// floorUnixPings sends Size bytes there and back over a Unix socket, asleep.
func floorUnixPings(s *side) error {
	addr := &net.UnixAddr{Net: "unixpacket"}
	if !s.Active {
		addr.Name = fmt.Sprintf("@rdmafigures-%d", os.Getpid())
		l, err := net.ListenUnix("unixpacket", addr)
		if err != nil {
			return err
		}
		defer l.Close()
		if err := s.ready(addr.Name); err != nil {
			return err
		}
		c, err := l.AcceptUnix()
		if err != nil {
			return err
		}
		return s.pings(c)
	}
	if err := s.peer(&addr.Name); err != nil {
		return err
	}
	c, err := net.DialUnix("unixpacket", nil, addr)
	if err != nil {
		return err
	}
	return s.pings(c)
}
