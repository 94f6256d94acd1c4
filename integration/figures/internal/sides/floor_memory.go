package sides

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// The words of the shared memory, each in a cache line that no other is in; the
// first is the active side's to write, the second the passive's.
const (
	activeWord  = 0
	passiveWord = 256
	copies      = 4096 // where the buffers begin
)

// common maps the memory that both processes share, populated.
func common() ([]byte, error) {
	mem, err := unix.Mmap(3, 0, commonSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	return mem, nil
}

// words are the offsets of the word that this side writes, and of the word that it
// watches.
func (s *side) words() (own, other int) {
	if s.Active {
		return activeWord, passiveWord
	}
	return passiveWord, activeWord
}

// meet makes each side wait until the other has started.
func (s *side) meet(mem []byte) error {
	own, other := s.words()
	if !s.Active {
		if err := s.ready(""); err != nil {
			return err
		}
	}
	wordAt(mem, own+64).Store(1)
	for wordAt(mem, other+64).Load() == 0 {
		runtime.Gosched()
	}
	return nil
}

// floorWords answers a word with a word: two processes that spin on one each.
func floorWords(s *side) error {
	mem, err := common()
	if err != nil {
		return err
	}
	if err := s.meet(mem); err != nil {
		return err
	}
	o, w := s.words()
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

// floorMemmove copies through as many buffers as the writes of a stream, from one
// shared memory into another, as an adapter's memory is shared too.
func floorMemmove(s *side) error {
	dst, err := common()
	if err != nil {
		return err
	}
	if err := s.meet(dst); err != nil {
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
