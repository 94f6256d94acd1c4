//go:build linux && race

package shm

import (
	"runtime"
	"unsafe"
)

// published stands on the heap for all that is published in shared mappings,
// which the race detector does not watch.
var published byte

func raceRelease() { runtime.RaceReleaseMerge(unsafe.Pointer(&published)) }
func raceAcquire() { runtime.RaceAcquire(unsafe.Pointer(&published)) }
