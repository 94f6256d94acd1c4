//go:build linux

package ring

import (
	"bytes"
	"encoding/binary"
	"testing"
	"unsafe"

	"lwio/internal/test/skip"
)

// The bytes of headers in a ring are fixed, in little-endian order.
func TestGoldenEntry(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		skip.Test(t, "a ring has the byte order of its host")
	}
	full := make([]byte, HeaderSize)
	for i := range full {
		full[i] = 0xEE
	}
	for _, x := range []struct {
		e    Entry
		want []byte
	}{
		{Entry{Kind: CompactSend, Flags: FlagFirst | FlagSolicited, Length: 48, Total: 48}, []byte{7, 5, 0, 0, 48, 0, 0, 0}},
		{
			Entry{Kind: Write, Flags: FlagImmediate, Length: 2, Total: 3, Immediate: 4, Addr: 5, Token: 6},
			[]byte{2, 8, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 6, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0},
		},
	} {
		words := make([]uint64, HeaderSize/8) // aligned
		ring := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), HeaderSize)
		copy(ring, full)
		x.e.Store(ring, 0)
		if n := x.e.Header(); n != len(x.want) || !bytes.Equal(ring[:n], x.want) || !bytes.Equal(ring[n:], full[n:]) {
			t.Errorf("%x, want %x", ring, x.want)
		}
		var got Entry
		if got.load(ring, 0); got != x.e {
			t.Errorf("read as %+v, not %+v", got, x.e)
		}
	}
}

// The offsets of a segment's words and slots are fixed.
func TestGoldenSegment(t *testing.T) {
	var w Words
	for name, x := range map[string]struct{ got, want uintptr }{
		"tail":            {unsafe.Offsetof(w.Tail), 0},
		"head":            {unsafe.Offsetof(w.Head), 64},
		"sleep":           {unsafe.Offsetof(w.Sleep), 128},
		"waiting":         {unsafe.Offsetof(w.Waiting), 192},
		"busy":            {unsafe.Offsetof(w.Busy), 256},
		"state":           {unsafe.Offsetof(w.State), 320},
		"futex":           {unsafe.Offsetof(w.Futex), 384},
		"table":           {unsafe.Offsetof(w.table), 4096},
		"slot 1":          {uintptr(unsafe.Pointer(&w.table[1])) - uintptr(unsafe.Pointer(&w)), 4096 + 64},
		"slot.key":        {unsafe.Offsetof(w.table[0].Key), 0},
		"slot.base":       {unsafe.Offsetof(w.table[0].Base), 8},
		"slot.size":       {unsafe.Offsetof(w.table[0].Size), 16},
		"slot.offset":     {unsafe.Offsetof(w.table[0].Offset), 24},
		"slot.mapped":     {unsafe.Offsetof(w.table[0].Mapped), 32},
		"slot.references": {unsafe.Offsetof(w.table[0].References), 40},
		"end":             {unsafe.Sizeof(w), SegmentSize},
	} {
		if x.got != x.want {
			t.Errorf("%s is at %d, not %d", name, x.got, x.want)
		}
	}
}
