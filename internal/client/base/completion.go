package base

import "fmt"

// CompletionMode is the way in which a client waits for the completion of a read or write.
//
// Source: [LWIO §I/O Processing], [LWIO §Wakeup], [OP-88], [OP-95]
type CompletionMode uint8

// The completion modes. Adaptive and Polling need an adapter with rdma.CapInOrderPlacement, or a sealed
// connection. Another connection works as with Interrupt.
const (
	// Adaptive, the default, chooses for each request. It busy-polls if completions come
	// faster than a sleep and a wake-up take, and sleeps otherwise or if many requests are in
	// flight.
	Adaptive CompletionMode = iota
	// Polling sleeps only after it has busy-polled for one or two milliseconds without an answer.
	// It has the lowest latency and takes the most CPU time.
	Polling
	// Interrupt sleeps until the completion arrives.
	Interrupt
)

// String returns the name of the mode as in a URL.
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

// completionMode is the inverse of String.
func completionMode(s string) (CompletionMode, bool) {
	for m := Adaptive; m <= Interrupt; m++ {
		if m.String() == s {
			return m, true
		}
	}
	return 0, false
}
