package lwio

import "lwio/internal/client/base"

// CompletionMode is the way in which a client waits for the completion of a read or write. Its
// String method returns the name of the mode as in a URL: "adaptive", "polling", "interrupt".
//
// Source: [LWIO §I/O Processing], [LWIO §Wakeup], [OP-88], [OP-95]
type CompletionMode = base.CompletionMode

// The completion modes. Adaptive and Polling need an adapter with rdma.CapInOrderPlacement. A
// connection over another adapter works as with Interrupt.
const (
	// Adaptive, the default, chooses for each request. It busy-polls if completions come
	// faster than a sleep and a wake-up take, and sleeps otherwise or if many requests are in
	// flight.
	Adaptive = base.Adaptive
	// Polling sleeps only after it has busy-polled for one or two milliseconds without an answer.
	// It has the lowest latency and takes the most CPU time.
	Polling = base.Polling
	// Interrupt sleeps until the completion arrives.
	Interrupt = base.Interrupt
)
