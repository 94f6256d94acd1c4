package sides

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// The words of the shared memory, each alone in its cache line: the active side writes the
// first, the passive one the second.
const (
	activeWord  = 0
	passiveWord = 256
	copies      = 4096 // where the buffers begin
)

// common maps and populates the memory that both processes share, and waits until both have
// started. own and other are the offsets of the word that this side writes, and of the word
// that it watches.
func (s *side) common() (mem []byte, own, other int, err error) {
	mem, err = unix.Mmap(3, 0, commonSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, 0, 0, fmt.Errorf("mmap: %w", err)
	}
	own, other = activeWord, passiveWord
	if !s.Active {
		own, other = other, own
		if err := s.ready(""); err != nil {
			return nil, 0, 0, err
		}
	}
	wordAt(mem, own+64).Store(1)
	for wordAt(mem, other+64).Load() == 0 {
		runtime.Gosched()
	}
	return mem, own, other, nil
}

// floorWords answers a word with a word: each of two processes spins on one word.
func floorWords(s *side) error {
	mem, o, w, err := s.common()
	if err != nil {
		return err
	}
	own, other := wordAt(mem, o), wordAt(mem, w)
	last := uint64(0)
	return s.phases(func(ops int) error {
		for range ops {
			last++
			if s.Active {
				own.Store(last)
			}
			for other.Load() != last {
			}
			if !s.Active {
				own.Store(last)
			}
		}
		return nil
	})
}

// floorMemmove copies through as many buffers as the writes of a stream, from one shared
// memory into another, because the memory of an adapter is shared too.
func floorMemmove(s *side) error {
	dst, _, _, err := s.common()
	if err != nil {
		return err
	}
	if !s.Active {
		return s.phases(func(int) error { return nil })
	}
	fd, err := unix.MemfdCreate("source", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "source")
	defer f.Close()
	if err := f.Truncate(commonSize); err != nil {
		return err
	}
	src, err := unix.Mmap(fd, 0, commonSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("mmap: %w", err)
	}
	for i := range src {
		src[i] = byte(i)
	}
	if copies+s.Size*s.Buffers > commonSize {
		return errors.New("the buffers do not fit")
	}
	return s.phases(func(ops int) error {
		for i := range ops {
			at := copies + i%s.Buffers*s.Size
			copy(dst[at:at+s.Size], src[at:at+s.Size])
		}
		return nil
	})
}
