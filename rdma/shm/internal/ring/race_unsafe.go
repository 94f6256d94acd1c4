//go:build linux && race

package ring

import (
	"runtime"
	"unsafe"
)

// published represents, on the heap, all data that is published in shared mappings. The
// race detector does not watch these mappings.
var published byte

// RaceRelease tells the race detector that this goroutine publishes its writes.
func RaceRelease() { runtime.RaceReleaseMerge(unsafe.Pointer(&published)) }

// RaceAcquire tells the race detector that this goroutine has seen the published writes.
func RaceAcquire() { runtime.RaceAcquire(unsafe.Pointer(&published)) }
