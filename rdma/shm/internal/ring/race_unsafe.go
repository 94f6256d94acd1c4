//go:build linux && race

package ring

import (
	"runtime"
	"unsafe"
)

// published stands on the heap for all that is published in shared mappings, which the
// race detector does not watch.
var published byte

// RaceRelease tells the race detector that what this goroutine wrote is published.
func RaceRelease() { runtime.RaceReleaseMerge(unsafe.Pointer(&published)) }

// RaceAcquire tells the race detector that this goroutine has seen what was published.
func RaceAcquire() { runtime.RaceAcquire(unsafe.Pointer(&published)) }
