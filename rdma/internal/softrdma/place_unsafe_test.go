package softrdma

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"unsafe"
)

// Source: [OP-89b]
func TestPlaceCopiesAllSizes(t *testing.T)     { testPlace(t, Place) }
func TestPlaceSoonCopiesAllSizes(t *testing.T) { testPlace(t, PlaceSoon) }

// placing is Place or PlaceSoon.
type placing func(dst, src []byte, fence *atomic.Uint32)

func testPlace(t *testing.T, place placing) {
	var fence atomic.Uint32
	src := []byte("0123456789abcdefghijklmnopqrstuvwxyz")
	for off := range 16 {
		for n := range len(src) + 1 {
			dst := make([]byte, 64)
			place(dst[off:off+n], src[:n], &fence)
			want := append(append(make([]byte, off), src[:n]...), make([]byte, 64-off-n)...)
			if !bytes.Equal(dst, want) {
				t.Fatalf("%d bytes at %d: %q", n, off, dst)
			}
		}
	}
}

// A poller of the last word of a block never sees a torn word. When the word has changed,
// the rest of the block has changed too, for all sizes.
//
// Source: [OP-88], [OP-89b]
func TestPlaceChangesTheEndLast(t *testing.T)     { testPlaceOrder(t, Place) }
func TestPlaceSoonChangesTheEndLast(t *testing.T) { testPlaceOrder(t, PlaceSoon) }

func testPlaceOrder(t *testing.T, place placing) {
	for _, count := range []int{2, 8, 64, 512} {
		t.Run(fmt.Sprint(8*count, " bytes"), func(t *testing.T) { pollPlaced(t, place, count) })
	}
}

func pollPlaced(t *testing.T, place placing, count int) {
	const turns = 10000
	words := make([]uint64, count)
	dst := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*count)
	seen := make(chan uint64)
	go func() {
		var fence atomic.Uint32
		src := make([]byte, 8*count)
		for i := uint64(1); i <= turns; i++ {
			for w := range count {
				binary.NativeEndian.PutUint64(src[8*w:], i*0x0101010101010101)
			}
			place(dst, src, &fence)
			if <-seen != i*0x0101010101010101 {
				break
			}
		}
		close(seen)
	}()
	for i := uint64(1); i <= turns; i++ {
		last := atomic.LoadUint64(&words[count-1])
		for last == (i-1)*0x0101010101010101 {
			runtime.Gosched()
			last = atomic.LoadUint64(&words[count-1])
		}
		want := last == i*0x0101010101010101
		for w := count - 2; w >= 0 && want; w-- {
			want = words[w] == last
		}
		if !want {
			t.Errorf("round %d: %x after %x", i, last, words)
			last = 0
		}
		seen <- last
		if last == 0 {
			break
		}
	}
}
