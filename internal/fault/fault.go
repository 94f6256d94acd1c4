// Package fault tells faults in memory that others can take away from other panics.
package fault

import "runtime/debug"

// Caught ends what debug.SetPanicOnFault(true) began: old is what that returned. It reports
// whether x, which recover returned, is a fault in memory; if it is nil it is none, and any other
// panic goes on. It is called by a deferred function.
func Caught(old bool, x any) bool {
	debug.SetPanicOnFault(old)
	if x == nil {
		return false
	}
	if _, ok := x.(interface{ Addr() uintptr }); !ok {
		panic(x)
	}
	return true
}
