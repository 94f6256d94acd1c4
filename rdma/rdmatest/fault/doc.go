// Package fault wraps a provider of package rdma to observe and to disturb its operations:
// it counts, traces, and injects faults. The result is a provider again, which passes the
// conformance suite as well as the wrapped one.
//
//	h := fault.Wrap(iwarp.New(nil), &fault.Config{Tracer: myTracer})
//	client := lwio.Config{Providers: []rdma.Provider{h}}
//	...
//	fmt.Println(h.Stats().Ops[rdma.OpWrite].Bytes)
//
// Counting is always on and costs some tens of nanoseconds a request, without an
// allocation. A tracer gets one event for every request, result and call of the control
// path; LogTo makes one of a slog.Logger. A fault function decides the fate of every
// request: it passes, is late, fails, vanishes, has a bit inverted, or cuts the connection,
// at an operation or byte of choice or at random. The decisions of Random follow from a seed
// alone. Config.Shuffle reorders, by a seed too, events without an order by the rules.
//
// Objects of a wrapped provider belong together: memory that was registered through the
// wrapper is used with queue pairs made through the wrapper.
package fault
