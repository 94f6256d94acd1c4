package rdmaconn

import (
	"bytes"
	"runtime"
	"testing"
	"time"
)

// waitLimit bounds the waits of tests.
const waitLimit = 30 * time.Second

// waitFor waits until done reports true. The test fails if the connection ends before.
func waitFor(t *testing.T, c *Conn, done func() bool) {
	t.Helper()
	for end := time.Now().Add(waitLimit); !done(); time.Sleep(time.Millisecond) {
		switch {
		case c.IsDown():
			t.Fatal(c.Err())
		case time.Now().After(end):
			t.Fatal("it never happened")
		}
	}
}

// isRunning reports whether a goroutine is in the method with this name.
func isRunning(method string) bool {
	stacks := make([]byte, 1<<20)
	return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte(")."+method+"("))
}
