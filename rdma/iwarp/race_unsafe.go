//go:build race

package iwarp

import (
	"runtime"
	"unsafe"
)

// socketOrder stands for the order that a socket makes between writer and reader, which
// the race detector cannot see in bare system calls.
var socketOrder byte

func raceRelease() { runtime.RaceReleaseMerge(unsafe.Pointer(&socketOrder)) }
func raceAcquire() { runtime.RaceAcquire(unsafe.Pointer(&socketOrder)) }
