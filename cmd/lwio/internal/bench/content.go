package bench

import (
	"encoding/binary"
	"fmt"
)

// wordSize is the unit of a file's content, in bytes.
const wordSize = 8

// word is what a file holds at an offset, a multiple of wordSize.
func word(off int64) uint64 {
	x := uint64(off)/wordSize*0x9E3779B97F4A7C15 + 1
	x ^= x >> 32
	return x * 0xD6E8FEB86659FD93
}

// Fill makes p what a file holds at an offset; both are whole words.
func Fill(p []byte, off int64) {
	for i := 0; i+wordSize <= len(p); i += wordSize {
		binary.LittleEndian.PutUint64(p[i:], word(off+int64(i)))
	}
}

// verify demands that p is what a file holds at an offset.
func verify(p []byte, off int64) error {
	for i := 0; i+wordSize <= len(p); i += wordSize {
		if binary.LittleEndian.Uint64(p[i:]) != word(off+int64(i)) {
			return fmt.Errorf("wrong bytes at offset %d", off+int64(i))
		}
	}
	return nil
}
