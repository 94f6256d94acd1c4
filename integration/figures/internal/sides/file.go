package sides

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"lwio/internal/host"
)

// The messages of a read over LWIO, in bytes: the request, and the status that comes with
// the data.
const (
	requestSize = 48
	statusSize  = 16
)

// filled fills memory. Memory that no program has written is one page of zeros, which the
// CPU reads from its cache.
func filled(mem []byte) []byte {
	for i := range mem {
		mem[i] = byte(i * 7 >> 3)
	}
	return mem
}

// ask sends requests and receives data with a status, in the sizes of a read over LWIO, and
// times each.
func (s *side) ask() error {
	return s.withConn(func(c io.ReadWriter) error {
		request, answer := make([]byte, requestSize), make([]byte, s.Size+statusSize)
		return s.phases(func(ops int) error {
			for range ops {
				start := time.Now()
				if err := s.askOnce(c, request, answer); err != nil {
					return err
				}
				s.delays = append(s.delays, time.Since(start))
			}
			return nil
		})
	})
}

// askOnce is one request and its answer, on either side.
func (s *side) askOnce(c io.ReadWriter, request, answer []byte) error {
	out, in := request, answer
	if !s.Active {
		out, in = answer, request
	}
	return s.turn(
		func() error { _, err := c.Write(out); return err },
		func() error { _, err := io.ReadFull(c, in); return err },
	)
}

// readFile streams blocks at random places of the file from the passive side.
func (s *side) readFile() error {
	return s.withConn(func(c io.ReadWriter) error {
		buf := filled(make([]byte, s.Size*max(s.Flight, 1)))
		blocks, err := s.openBlocks()
		if err != nil {
			return err
		}
		defer blocks.close()
		return s.phases(func(ops int) error {
			for i := range ops {
				p := buf[i%max(s.Flight, 1)*s.Size:][:s.Size]
				if s.Active {
					if _, err := io.ReadFull(c, p); err != nil {
						return err
					}
					continue
				}
				if _, err := blocks.f.ReadAt(p, blocks.random()); err != nil {
					return err
				}
				if _, err := c.Write(p); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// writeFile sends blocks, Flight of them in flight, each answered by a byte. The passive side
// writes them to random places of the file, or drops them.
func (s *side) writeFile() error {
	return s.withConn(func(c io.ReadWriter) error {
		buf, one := filled(make([]byte, s.Size)), make([]byte, 1)
		blocks, err := s.openBlocks()
		if err != nil {
			return err
		}
		defer blocks.close()
		return s.phases(func(ops int) error {
			if s.Active {
				return s.sendBlocks(c, buf, one, ops)
			}
			for range ops {
				if _, err := io.ReadFull(c, buf); err != nil {
					return err
				}
				if s.Bench != "drain" {
					if _, err := blocks.f.WriteAt(buf, blocks.random()); err != nil {
						return err
					}
				}
				if _, err := c.Write(one); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// sendBlocks sends ops blocks and takes as many answers.
func (s *side) sendBlocks(c io.ReadWriter, block, one []byte, ops int) error {
	for sent, answered := 0, 0; answered < ops; answered++ {
		for ; sent < min(ops, answered+s.Flight); sent++ {
			if _, err := c.Write(block); err != nil {
				return err
			}
		}
		if _, err := io.ReadFull(c, one); err != nil {
			return err
		}
	}
	return nil
}

// blockFile is the file of a side, in blocks.
type blockFile struct {
	f    *os.File
	size int64 // of a block
	n    int64
}

// openBlocks opens the file of the passive side.
func (s *side) openBlocks() (*blockFile, error) {
	if s.Active || s.Bench == "drain" {
		return new(blockFile), nil
	}
	f, err := os.OpenFile(s.File, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &blockFile{f, int64(s.Size), info.Size() / int64(s.Size)}, nil
}

// resize makes the blocks smaller.
func (b *blockFile) resize(size int) {
	if b.f != nil {
		b.n, b.size = b.n*b.size/int64(size), int64(size)
	}
}

// random is the offset of a random block.
func (b *blockFile) random() int64 { return rand.Int64N(b.n) * b.size }

func (b *blockFile) close() {
	if b.f != nil {
		b.f.Close()
	}
}

// copyFile copies a file once, from the passive side or, up, from the active one. The receiver
// answers by one byte.
func (s *side) copyFile() error {
	return s.withConn(func(c io.ReadWriter) error {
		cpu, start := host.CPUTime(), time.Now()
		n, err := s.transfer(c)
		s.outcome = outcome{Ops: 1, Took: time.Since(start), CPU: host.CPUTime() - cpu, Memory: n}
		return err
	})
}

// transfer sends the file or receives it, and returns its size.
func (s *side) transfer(c io.ReadWriter) (int64, error) {
	one := make([]byte, 1)
	if s.Active == s.Up {
		n, err := sendFile(c, s.File)
		if err != nil {
			return n, err
		}
		_, err = io.ReadFull(c, one)
		return n, err
	}
	info, err := os.Stat(s.File)
	if err != nil {
		return 0, err
	}
	if err := receiveFile(c, s.To, info.Size()); err != nil {
		return 0, err
	}
	_, err = c.Write(one)
	return info.Size(), err
}

func sendFile(c io.Writer, name string) (int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	buf := make([]byte, 256<<10)
	for off := int64(0); ; {
		n, err := f.ReadAt(buf, off)
		if _, werr := c.Write(buf[:n]); werr != nil {
			return off, werr
		}
		off += int64(n)
		if errors.Is(err, io.EOF) {
			return off, nil
		}
		if err != nil {
			return off, err
		}
	}
}

func receiveFile(c io.Reader, name string, size int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	buf := make([]byte, 2<<20) // the size of a huge page is the fastest for the page cache
	for size > 0 {
		p := buf[:min(size, int64(len(buf)))]
		if _, err := io.ReadFull(c, p); err != nil {
			return errors.Join(err, f.Close())
		}
		if _, err := f.Write(p); err != nil {
			return errors.Join(err, f.Close())
		}
		size -= int64(len(p))
	}
	return f.Close()
}
