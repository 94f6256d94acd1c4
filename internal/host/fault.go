package host

import "runtime/debug"

// CaughtFault ends a section begun by debug.SetPanicOnFault(true): old is the result of that
// call, x the result of recover. It reports whether x is a memory fault, as of a mapped file
// that was truncated. nil is none, and any other panic continues. A deferred function calls it.
func CaughtFault(old bool, x any) bool {
	debug.SetPanicOnFault(old)
	if x == nil {
		return false
	}
	if _, ok := x.(interface{ Addr() uintptr }); !ok {
		panic(x)
	}
	return true
}
