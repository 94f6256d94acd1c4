//go:build race

package iwarp

import (
	"runtime"
	"unsafe"
)

// socketOrder represents, for the race detector, the order that a socket makes between
// writer and reader. The race detector does not see it in direct system calls.
var socketOrder byte

func raceRelease() { runtime.RaceReleaseMerge(unsafe.Pointer(&socketOrder)) }
func raceAcquire() { runtime.RaceAcquire(unsafe.Pointer(&socketOrder)) }
