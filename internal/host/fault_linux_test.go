package host

import (
	"errors"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"
)

// try calls f and reports whether it ended with a fault.
func try(f func()) (caught bool) {
	old := debug.SetPanicOnFault(true)
	defer func() { caught = CaughtFault(old, recover()) }()
	f()
	return false
}

// Only a fault is caught, any other panic continues, and faults are as fatal afterwards as
// before.
func TestCaughtFaultCatchesOnlyFaults(t *testing.T) {
	mem, err := unix.Mmap(-1, 0, 4096, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	if !try(func() { mem[0] = 1 }) {
		t.Error("a fault was not caught")
	}
	if try(func() {}) {
		t.Error("a fault where there is none")
	}
	other := errors.New("other")
	func() {
		defer func() {
			if x := recover(); x != other { //nolint:errorlint // the very panic
				t.Errorf("of another panic came %v", x)
			}
		}()
		try(func() { panic(other) })
	}()
	if debug.SetPanicOnFault(false) {
		t.Error("faults still panic")
	}
}
