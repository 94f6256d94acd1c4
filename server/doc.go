// Package server serves the shares of a vfs.FS: SMB names files and authenticates users, LWIO
// moves the data over RDMA.
//
//	fs, err := vfs.New(vfs.Config{Shares: ...})
//	srv, err := server.New(server.Config{FS: fs, Lookup: users.Lookup, Providers: providers})
//	err = srv.Serve(ctx, listener) // until srv.Shutdown or srv.Close
//
// # Parts
//
//   - internal/association: the negotiation on the pipe "lwio" of an SMB session, the keys that
//     come of it, and AUTH. LWIO and SMB meet only here and in the opens of vfs.
//   - engine.go, fabric.go, conntable.go: the LWIO side. For each provider it has an adapter, a
//     listener on the address of SMB, and a buffer pool; and a table of all connections, which
//     enforces the limits on their number.
//   - conn.go: a connection, composed of the receive loop (loop.go, throttle.go, spin.go), its
//     receive buffers (receives.go), the operations (op.go), the reader (read.go,
//     readdirect.go), the send queue (sendqueue.go, workrequests.go) with wake-ups (wakeups.go)
//     and their moderation (moderation.go), credits (credits.go), the replay cache (replay.go)
//     and the table of files (files.go).
//   - dispatch.go, auth.go, control.go, read.go, write.go: the messages.
//   - workerpool.go, bufferpool.go, creditpool.go: the resources that all connections share.
//
// The receive loop polls one completion queue in batches and answers requests that cannot block at
// once; workers perform the rest, at most a few for each file. All answers, except that of a READ which
// came alone, go through the outbox of the send queue; the goroutine that appends to an outbox
// which no other one is posting, posts it. The ways of a READ are listed at type reader.
//
// A READ is completed by a status, or with Config.ImmediateData by immediate data.
//
// # Goroutines
//
// An engine has one goroutine for each provider (accepting), one for each SMB session that
// negotiated (waiting for its end), one for each connection (its receive loop), one that looks
// for stalled connections, one that balances credits, and the workers of two pools.
// Server.Close waits for all of them.
//
// # Memory
//
// The receive buffers of a connection are one mapping. Its pages of data are committed when
// data arrives, and given back with the credit; headers and answers share a page or two. No
// region of the server has remote rights, so nothing that a client sends can be written
// anywhere but into a receive.
//
// # Hostile clients
//
// Before AUTH a connection has one receive, two over a provider with rdma.CapDirectFile, and
// five seconds. A violation of the protocol that leaves the state of the connection in doubt ends
// it; anything else is answered with a status. Limits bound connections, keys, files, requests and
// memory, and one connection holds at most a quarter of a buffer pool. A client that does not
// receive its answers is cut off, and so is a connection that holds up the close of a file.
//
// # Locks
//
// Taken in this order: connTable.mu, sendQueue.mu, then workerPool.mu, bufferPool.mu, and those
// of vfs. All others are leaves: engine.mu, creditState.mu, replayCache.mu, fileTable.mu,
// creditPool.mu, replayTable.mu, shareTable.mu, and the lock of the association. None is held
// over I/O or a post.
//
// Source: [LWIO §I/O Processing] [LWIO claim 16]
package server
