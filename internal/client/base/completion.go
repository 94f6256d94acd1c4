package base

import "fmt"

// CompletionMode says how a client learns that a read or write is done.
//
// Source: [LWIO §I/O Processing], [LWIO §Wakeup], [OP-88], [OP-95]
type CompletionMode uint8

// The modes. Each connection uses the first two only over an adapter that places
// data in order; over others it is Interrupt in effect.
const (
	// Adaptive polls where answers come faster than a sleep and a wake-up take, and
	// sleeps where they do not or where many requests are in flight. It is the
	// default.
	Adaptive CompletionMode = iota
	// Polling looks at memory for an answer, for up to a millisecond, before it
	// sleeps: the least delay for the most CPU time.
	Polling
	// Interrupt sleeps until an answer comes.
	Interrupt
)

// String is the mode as a URL has it.
func (m CompletionMode) String() string {
	switch m {
	case Adaptive:
		return "adaptive"
	case Polling:
		return "polling"
	case Interrupt:
		return "interrupt"
	}
	return fmt.Sprintf("CompletionMode(%d)", uint8(m))
}

// completionMode reads the text of String.
func completionMode(s string) (CompletionMode, bool) {
	for m := Adaptive; m <= Interrupt; m++ {
		if m.String() == s {
			return m, true
		}
	}
	return 0, false
}
