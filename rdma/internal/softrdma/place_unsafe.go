package softrdma

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// Place copies src to dst, of equal length, so that who polls the end of dst
// sees it change last: what ends at a multiple of 8 (or 4) bytes in memory is
// ended by one atomic store of the last word, and any other by a store of the last
// byte after a fence. An aligned 8-byte write is thereby one atomic store. Who sees after
// that that the peer does not sleep yet knows that it will see the change.
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

// PlaceSoon is Place for who takes or gives back a lock before it asks whether somebody
// sleeps who would look: until then the change of more than 8 bytes may not be seen. It does
// not hold the processor up until memory that was in no cache is there.
func PlaceSoon(dst, src []byte, fence *atomic.Uint32) {
	n := len(src)
	if n <= 8 || (uintptr(unsafe.Pointer(unsafe.SliceData(dst)))+uintptr(n))%8 != 0 {
		Place(dst, src, fence)
		return
	}
	copy(dst[:n-8], src)
	storeLast(unsafe.Pointer(&dst[n-8]), binary.NativeEndian.Uint64(src[n-8:]))
}

// pageOffset is the offset of buf's first byte in its page.
func pageOffset(buf []byte) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(buf)))) & 4095
}

// WordAt is the first 8 bytes of buf as a number, or nil if that is not aligned.
func WordAt(buf []byte) *uint64 {
	p := unsafe.Pointer(unsafe.SliceData(buf))
	if len(buf) < 8 || uintptr(p)%8 != 0 {
		return nil
	}
	return (*uint64)(p)
}
