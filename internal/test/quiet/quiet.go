// Package quiet waits until a test program does no more work.
package quiet

import (
	"bytes"
	"runtime"
	"time"
)

// blocked are the states of goroutines that wait for another goroutine, or for a peer.
var blocked = [][]byte{
	[]byte("chan receive"), []byte("chan send"), []byte("select"), []byte("IO wait"),
	[]byte("sync.Mutex.Lock"), []byte("sync.RWMutex"), []byte("sync.Cond.Wait"), []byte("sync.WaitGroup.Wait"),
	[]byte("finalizer wait"), []byte("cleanup wait"),
}

// Wait returns when all other goroutines of the program are blocked. A peer outside the program, data
// in a socket or a timer can still wake them.
func Wait() {
	for buf := make([]byte, 1<<20); ; time.Sleep(time.Millisecond) {
		n := runtime.Stack(buf, true)
		for ; n == len(buf); n = runtime.Stack(buf, true) {
			buf = make([]byte, 2*len(buf))
		}
		if allBlocked(buf[:n]) {
			return
		}
	}
}

// allBlocked reports whether all goroutines of a dump but the first are blocked. The first is the
// caller.
func allBlocked(dump []byte) bool {
	others := bytes.Split(dump, []byte("\n\ngoroutine "))[1:]
	for _, g := range others {
		if !isBlocked(g) {
			return false
		}
	}
	return true
}

// isBlocked reports whether a goroutine is blocked, by its state and its innermost function.
//
// A goroutine in the state semacquire waits for a descriptor of package internal/poll, or for the
// runtime: an allocation that begins a garbage collection waits so while the stacks are written, and
// goes on afterwards.
func isBlocked(stack []byte) bool {
	_, state, _ := bytes.Cut(stack, []byte(" ["))
	for _, b := range blocked {
		if bytes.HasPrefix(state, b) {
			return true
		}
	}
	_, calls, _ := bytes.Cut(state, []byte("\n"))
	return bytes.HasPrefix(state, []byte("semacquire")) && bytes.HasPrefix(calls, []byte("internal/poll."))
}
