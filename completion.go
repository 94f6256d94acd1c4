package lwio

import "lwio/internal/client/base"

// CompletionMode says how a client learns that a read or write is done.
//
// Source: [LWIO §I/O Processing], [LWIO §Wakeup], [OP-88], [OP-95]
type CompletionMode = base.CompletionMode

// The modes. Each connection uses the first two only over an adapter that places
// data in order; over others it is Interrupt in effect.
const (
	// Adaptive polls where answers come faster than a sleep and a wake-up take, and
	// sleeps where they do not or where many requests are in flight. It is the
	// default.
	Adaptive = base.Adaptive
	// Polling looks at memory for an answer, for up to a millisecond, before it
	// sleeps: the least delay for the most CPU time.
	Polling = base.Polling
	// Interrupt sleeps until an answer comes.
	Interrupt = base.Interrupt
)
