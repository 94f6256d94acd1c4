package bench

import (
	"encoding/binary"
	"fmt"
)

// wordSize is the unit of a file's content, in bytes.
const wordSize = 8

// generation distinguishes the content of a block before and after a job writes it.
type generation uint64

const (
	original generation = iota // the content that FillFile writes
	written                    // the content that a job writes
)

// word is the content of a file at an offset, a multiple of wordSize. It differs for each
// offset and generation.
func word(off int64, g generation) uint64 {
	x := uint64(off)/wordSize*0x9E3779B97F4A7C15 + 1 + uint64(g)<<63
	x ^= x >> 32
	return x * 0xD6E8FEB86659FD93
}

// fill gives p the content of a file at an offset; both are whole words.
func fill(p []byte, off int64, g generation) {
	for i := 0; i+wordSize <= len(p); i += wordSize {
		binary.LittleEndian.PutUint64(p[i:], word(off+int64(i), g))
	}
}

// verify checks that each word of p is the content of a file at its offset in one of the
// generations.
func verify(p []byte, off int64, of ...generation) error {
	for i := 0; i+wordSize <= len(p); i += wordSize {
		if got := binary.LittleEndian.Uint64(p[i:]); got != word(off+int64(i), of[0]) && (len(of) == 1 || got != word(off+int64(i), of[1])) {
			return fmt.Errorf("wrong bytes at offset %d", off+int64(i))
		}
	}
	return nil
}

// FillFile passes the original content of a file of size bytes to write, piece by piece.
func FillFile(size int64, write func(p []byte, off int64) error) error {
	p := make([]byte, 2<<20)
	for off := int64(0); off < size; {
		n := min(int64(len(p)), size-off)
		fill(p[:(n+wordSize-1)/wordSize*wordSize], off, original)
		if err := write(p[:n], off); err != nil {
			return err
		}
		off += n
	}
	return nil
}

// blocks is a set of a file's blocks.
type blocks []uint64

func newBlocks(n int64) blocks { return make(blocks, (n+63)/64) }

func (b blocks) add(i int64)      { b[i/64] |= 1 << (i % 64) }
func (b blocks) has(i int64) bool { return b[i/64]>>(i%64)&1 != 0 }

// merge adds the blocks of other.
func (b blocks) merge(other blocks) {
	for i, w := range other {
		b[i] |= w
	}
}
