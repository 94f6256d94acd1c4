package softrdma

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// Place copies src to dst, of equal length, so that a program that polls the end of dst
// sees the end change last. If dst ends at a multiple of 8 (or 4) bytes, one atomic store
// of the last word completes it; otherwise a store of the last byte after a fence does.
// An aligned 8-byte write is thus one atomic store. If the caller sees afterwards that
// the peer does not sleep yet, the peer will see the change.
//
// Source: [OP-88], [OP-89b]
func Place(dst, src []byte, fence *atomic.Uint32) {
	n := len(src)
	if n == 0 {
		return
	}
	end := uintptr(unsafe.Pointer(unsafe.SliceData(dst))) + uintptr(n)
	switch {
	case n >= 8 && end%8 == 0:
		copy(dst[:n-8], src)
		atomic.StoreUint64((*uint64)(unsafe.Pointer(&dst[n-8])), binary.NativeEndian.Uint64(src[n-8:]))
	case n >= 4 && end%4 == 0:
		copy(dst[:n-4], src)
		atomic.StoreUint32((*uint32)(unsafe.Pointer(&dst[n-4])), binary.NativeEndian.Uint32(src[n-4:]))
	default:
		copy(dst[:n-1], src)
		fence.Add(1)
		dst[n-1] = src[n-1]
	}
}

// PlaceSoon is Place for callers that take or release a lock before they check whether
// the peer sleeps. Until then a change of more than 8 bytes may stay invisible. PlaceSoon
// does not stall the processor until uncached memory is loaded.
func PlaceSoon(dst, src []byte, fence *atomic.Uint32) {
	n := len(src)
	if n <= 8 || (uintptr(unsafe.Pointer(unsafe.SliceData(dst)))+uintptr(n))%8 != 0 {
		Place(dst, src, fence)
		return
	}
	copy(dst[:n-8], src)
	storeLast(unsafe.Pointer(&dst[n-8]), binary.NativeEndian.Uint64(src[n-8:]))
}

// pageOffset returns the offset of buf's first byte in its page.
func pageOffset(buf []byte) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(buf)))) & 4095
}

// WordAt returns the first 8 bytes of buf as a number, or nil if they are not aligned.
func WordAt(buf []byte) *uint64 {
	p := unsafe.Pointer(unsafe.SliceData(buf))
	if len(buf) < 8 || uintptr(p)%8 != 0 {
		return nil
	}
	return (*uint64)(p)
}
