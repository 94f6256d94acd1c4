package ledger

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// BlockSize is the size of a block that describes itself, in bytes.
const BlockSize = 512

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Fill makes blocks of a file from the index first on, as write number writes them. The length of p is a
// multiple of BlockSize.
func Fill(p []byte, file uint32, first int, write uint64) {
	for i := 0; i < len(p); i += BlockSize {
		b := p[i : i+BlockSize]
		binary.LittleEndian.PutUint32(b[4:], file)
		binary.LittleEndian.PutUint64(b[8:], uint64(first+i/BlockSize))
		binary.LittleEndian.PutUint64(b[16:], write)
		for j := 24; j < BlockSize; j += 8 {
			binary.LittleEndian.PutUint64(b[j:], write*0x9E3779B97F4A7C15+uint64(j))
		}
		binary.LittleEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	}
}

// written returns the number of the write that a block holds. It returns an error for a
// block that no write made, or that belongs to another place.
func written(b []byte, file uint32, index int) (uint64, error) {
	if got, want := binary.LittleEndian.Uint32(b), crc32.Checksum(b[4:], castagnoli); got != want {
		return 0, fmt.Errorf("file %d, block %d: checksum %#x, not %#x", file, index, got, want)
	}
	f, at := binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint64(b[8:])
	if f != file || at != uint64(index) {
		return 0, fmt.Errorf("file %d, block %d: it is block %d of file %d", file, index, at, f)
	}
	return binary.LittleEndian.Uint64(b[16:]), nil
}
