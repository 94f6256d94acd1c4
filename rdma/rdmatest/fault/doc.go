// Package fault wraps a provider of package rdma to observe and to disturb its
// operations: it counts, traces and injects faults. The wrapper is a provider too, and
// passes the conformance suite if the wrapped provider does.
//
//	h := fault.Wrap(iwarp.New(nil), &fault.Config{Tracer: myTracer})
//	client := lwio.Config{Providers: []rdma.Provider{h}}
//	...
//	fmt.Println(h.Stats().Ops[rdma.OpWrite].Bytes)
//
// Counting is always on and costs some tens of nanoseconds a request, without an
// allocation. A tracer gets one event for every request, result and call of the control
// path; LogTo makes a tracer of a slog.Logger. A fault function decides about every
// request. The request passes, is delayed, fails, is dropped, has a bit inverted, or cuts
// the connection. Faults occur at a chosen operation or byte, or at random. The decisions
// of Random depend only on a seed. Config.Shuffle reorders events for which the rules
// define no order, also by a seed.
//
// Use objects of the wrapper only with each other: memory that is registered through the
// wrapper needs a queue pair of the wrapper.
package fault
