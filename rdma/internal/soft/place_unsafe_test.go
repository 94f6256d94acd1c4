package soft

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"sync/atomic"
	"testing"
	"unsafe"
)

// Source: [OP-89b]
func TestPlace(t *testing.T) {
	var fence atomic.Uint32
	src := []byte("0123456789abcdefghijklmnopqrstuvwxyz")
	for off := range 16 {
		for n := range len(src) + 1 {
			dst := make([]byte, 64)
			Place(dst[off:off+n], src[:n], &fence)
			want := append(append(make([]byte, off), src[:n]...), make([]byte, 64-off-n)...)
			if !bytes.Equal(dst, want) {
				t.Fatalf("%d bytes at %d: %q", n, off, dst)
			}
		}
	}
}

// TestPlaceOrder polls the last word of a block: it is never torn, and once it
// has changed all before it has.
//
// Source: [OP-88], [OP-89b]
func TestPlaceOrder(t *testing.T) {
	const turns = 20000
	words := make([]uint64, 8)
	dst := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 64)
	seen := make(chan uint64)
	go func() {
		var fence atomic.Uint32
		src := make([]byte, 64)
		for i := uint64(1); i <= turns; i++ {
			for w := range 8 {
				binary.NativeEndian.PutUint64(src[8*w:], i*0x0101010101010101)
			}
			Place(dst, src, &fence)
			if <-seen != i*0x0101010101010101 {
				break
			}
		}
		close(seen)
	}()
	for i := uint64(1); i <= turns; i++ {
		last := atomic.LoadUint64(&words[7])
		for last == (i-1)*0x0101010101010101 {
			runtime.Gosched()
			last = atomic.LoadUint64(&words[7])
		}
		if last != i*0x0101010101010101 || words[0] != last || words[6] != last {
			t.Errorf("round %d: %x after %x %x", i, last, words[0], words[6])
			last = 0
		}
		seen <- last
		if last == 0 {
			break
		}
	}
}
