// Package verbs has the functions that the socket switch of package rsock calls: those
// of the service provider interface of Windows Sockets Direct that go beyond plain
// sockets, with their meaning and their errors, over any provider of package rdma.
//
//	svc, err := verbs.StartupEx(ctx, provider, netip.Addr{}, nil)
//	s, err := svc.Socket(ctx)                       // WSPSocket
//	h, err := s.RegisterMemory(ctx, buf, verbs.MemReadWrite)
//	err = s.Recv(&r, []verbs.BufferEx{{Handle: h, Length: 512}}, 0)
//	reply, err := s.Connect(ctx, remote, hello)     // WSPConnect
//
// # Objects
//
//	Service ─┬► Socket     one connection, a protection domain of its own
//	         └► Listener ─► Incoming ─► Socket
//
// # Requests
//
// [Socket.Send], [Socket.Recv], [Socket.RdmaRead] and [Socket.RdmaWrite] never
// block. Each takes an [Overlapped], which belongs to the caller and holds the outcome.
// A request without a Complete function is polled for with [Socket.GetResult]; the
// Complete function of any other is called when it has ended, and calls GetResult for
// the outcome. [Socket.Poll] takes the completions and calls the Complete functions in
// the goroutine of its caller; [Socket.Wait] sleeps until there may be one. The package
// has no goroutine of its own.
//
// With the flag [Defer] a request waits for the next one without it, or for
// [Socket.Commit], and is posted together with that.
//
// # Memory
//
// The memory of a request has been registered with [Socket.RegisterMemory] on the same
// socket. Memory that the peer may access has been registered with
// [Socket.RegisterRdmaMemory], whose descriptor goes to the peer in a message and is
// valid there only: every socket has an adapter, and so a protection domain, of its own.
//
// # Locks
//
// Socket.polling comes before Socket.posting, this before Socket.mu, which is held
// during no call of the provider.
//
// Source: [WSD §2], [WSD §6]
package verbs
