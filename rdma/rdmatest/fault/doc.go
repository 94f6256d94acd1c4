// Package hook wraps a provider of package rdma to see and to disturb what
// passes through it: it counts, traces, and injects faults. What it returns is a
// provider again, which passes the conformance suite as well as the one inside.
//
//	h := hook.Wrap(iwarp.New(nil), &hook.Config{Tracer: myTracer})
//	client := lwio.Config{Providers: []rdma.Provider{h}}
//	...
//	fmt.Println(h.Stats().Ops[rdma.OpWrite].Bytes)
//
// Counting is always on and costs some tens of nanoseconds a request; no request
// allocates for it. A tracer gets one event for every request, result and call of
// the control path; LogTo makes one of a slog.Logger. A fault function decides for
// every request what becomes of it: it passes, is late, fails, vanishes, loses a bit,
// or cuts the connection, at an operation or byte of choice or by chance. What Random
// decides follows from a seed alone. Config.Shuffle gives an order, by a seed too, to
// what the rules give none.
//
// Objects of a wrapped provider belong together: memory that was registered
// through the hook is used with queue pairs made through the hook.
package fault
