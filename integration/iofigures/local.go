package main

import (
	"fmt"
	"os"
)

// localLane reads and writes the file itself, through as many buffers as others have
// operations in flight.
type localLane struct {
	f     *os.File
	bufs  [][]byte
	write bool
}

func openLocal(j job) (lane, error) {
	f, err := os.OpenFile(j.File, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &localLane{f, buffers(filled(make([]byte, j.Depth*j.Size)), j.Size), j.Write}, nil
}

// filled fills memory, as a program does that has something to write: what nobody has
// written to is all the same page of zeros, which is read from the CPU's cache.
func filled(mem []byte) []byte {
	for i := range mem {
		mem[i] = byte(i * 7 >> 3)
	}
	return mem
}

// buffers cuts memory into pieces.
func buffers(mem []byte, size int) (all [][]byte) {
	for ; len(mem) > 0; mem = mem[size:] {
		all = append(all, mem[:size:size])
	}
	return all
}

func (l *localLane) run(m *meter) error {
	i := 0
	return m.do(func(off int64) error {
		p := l.bufs[i%len(l.bufs)]
		i++
		do := l.f.ReadAt
		if l.write {
			do = l.f.WriteAt
		}
		n, err := do(p, off)
		return whole(p, n, err)
	})
}

// whole is the error of an operation that was to do all of p, and did n bytes.
func whole(p []byte, n int, err error) error {
	if err == nil && n < len(p) {
		err = fmt.Errorf("%d bytes, not %d", n, len(p))
	}
	return err
}

// Close closes the file.
func (l *localLane) Close() error { return l.f.Close() }
