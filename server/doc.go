// Package server serves the shares of a vfs.FS: SMB names files and proves who
// asks, LWIO moves their data over RDMA.
//
//	fs, err := vfs.New(vfs.Config{Shares: ...})
//	srv, err := server.New(server.Config{FS: fs, Lookup: users.Lookup, Providers: providers})
//	err = srv.Serve(ctx, listener) // until srv.Shutdown or srv.Close
//
// # The parts
//
//   - association.go, keys.go: what a client's SMB session negotiates on the pipe
//     "lwio", and the pairs of keys that come of it. LWIO knows SMB by
//     the interface session alone, and both meet only in vfs's opens.
//   - fabric.go: for each provider an adapter, a listener on the address of SMB's,
//     and an arena, the memory that reads go through.
//   - conn.go, loop.go, dispatch.go, pump.go: a connection. Its loop polls one
//     completion queue in batches and answers what needs no waiting; the lanes'
//     workers do what does, and no file has all of them. All answers but
//     that of a READ which came alone (direct.go) go through the connection's outbox,
//     and whoever puts something into an empty one posts it.
//   - credits.go: how many messages each client may have in flight.
//   - auth.go, control.go, read.go, write.go: the messages.
//
// A READ is completed by a status, or where Config.ImmediateData says so by immediate
// data.
//
// # Who owns which goroutine
//
// An engine has one goroutine for each provider (accepting), one for each SMB
// session that negotiated (waiting for its end), one for each connection (its
// loop), one that looks for stalled connections, one that balances credits, and
// the workers of two lanes. Server.Close waits for all of them.
//
// # Memory
//
// A connection's receives are one mapping, of which the pages of data are
// committed when data arrives, and given back with the credit; headers and
// answers share a page or two. No region of the server has remote rights, so
// nothing that a client sends can be written anywhere but into a receive.
//
// # Hostile clients
//
// Before AUTH a connection has one receive and five seconds. What breaks the
// protocol so that its state is in doubt ends the connection; anything else is
// answered with a status. Connections, keys, files, requests and memory are
// bounded by Limits, and one connection holds at most a quarter of the arena.
// Who does not take its answers is cut, and so is who holds up the close of a
// file.
//
// # Locks
//
// Taken in this order: engine.mu, conn.mu, then vfs's own. Those of keyTable, arena,
// lane, creditPool, outcomeTable and shareTable are leaves. None is held over I/O or a
// post.
//
// Source: [LWIO §I/O Processing] [LWIO claim 16]
package server
