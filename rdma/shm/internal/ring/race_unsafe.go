//go:build linux && race

package ring

import (
	"runtime"
	"unsafe"
)

// published stands on the heap for all that is published in shared mappings, which the
// race detector does not watch.
var published byte

// RaceRelease tells the race detector that the writes of this goroutine are published.
func RaceRelease() { runtime.RaceReleaseMerge(unsafe.Pointer(&published)) }

// RaceAcquire tells the race detector that this goroutine has seen the published writes.
func RaceAcquire() { runtime.RaceAcquire(unsafe.Pointer(&published)) }
