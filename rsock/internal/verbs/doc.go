// Package verbs has the functions that the socket switch of package rsock calls. They are
// the functions of the service provider interface of Windows Sockets Direct that go beyond
// plain sockets, with the same meaning and errors. Any provider of package rdma can be
// below.
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
// [Socket.Send], [Socket.Recv], [Socket.RdmaRead] and [Socket.RdmaWrite] never block. Each
// takes an [Overlapped], which belongs to the caller and holds the outcome. The caller polls
// for the end of a request with [Socket.GetResult], or sets a Complete function, which is
// called when the request has ended and calls GetResult for the outcome. [Socket.Poll] takes
// the completions and calls the Complete functions in the goroutine of its caller.
// [Socket.Wait] sleeps until there may be a completion. The package has no goroutine of its
// own.
//
// With the flag [Defer] a request waits for the next request without the flag, or for
// [Socket.Commit]. Then all of them are posted together.
//
// # Memory
//
// The memory of a request has been registered with [Socket.RegisterMemory] on the same
// socket. Memory that the peer may access has been registered with
// [Socket.RegisterRdmaMemory]. Its descriptor goes to the peer in a message. Only that peer
// can use the descriptor, because every socket has its own adapter, and so its own
// protection domain.
//
// # Locks
//
// The order of locks is Socket.polling, Socket.posting, Socket.mu. Socket.mu is not held
// during a call of the provider.
//
// Source: [WSD §2], [WSD §6]
package verbs
