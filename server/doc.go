// Package server serves the shares of a vfs.FS: SMB names files and authenticates users, LWIO
// moves the data over RDMA.
//
//	fs, err := vfs.New(vfs.Config{Shares: ...})
//	srv, err := server.New(server.Config{FS: fs, Lookup: users.Lookup, Providers: providers})
//	err = srv.Serve(ctx, listener) // until srv.Shutdown or srv.Close
//
// # Parts
//
//   - internal/association: the negotiation on the pipe "lwio" of an SMB session, its keys, and
//     AUTH. LWIO and SMB meet only here and in the opens of vfs.
//   - engine.go, fabric.go, conntable.go: the LWIO side. The engine has an adapter, a listener on
//     the address of SMB, and a buffer pool for each provider. The table of all connections
//     enforces the limits on their number.
//   - conn.go: a connection, composed of the receive loop (loop.go, throttle.go, spin.go), its
//     receive buffers (receives.go), the operations (op.go), the reader (read.go,
//     readdirect.go), the send queue (sendqueue.go, workrequests.go) with wake-ups (wakeups.go)
//     and their moderation (moderation.go), credits (credits.go), the replay cache (replay.go), its
//     log for the next process (writerecords.go) and the table of files (files.go).
//   - sealing.go: a sealed connection. The receive loop opens messages, the goroutine that has read data
//     seals it, and the goroutine that posts seals answers.
//   - dispatch.go, auth.go, registrations.go, read.go, write.go: the messages.
//   - workerpool.go, bufferpool.go, creditpool.go: the resources that all connections share.
//
// The receive loop polls one completion queue in batches. It answers requests that cannot block at
// once; workers perform the rest, at most a few for each file. Answers go through the outbox of the
// send queue. A goroutine that appends to the outbox also posts it, unless another goroutine is
// posting. The answer to a single READ does not use the outbox. Type reader lists the ways of a
// READ.
//
// A READ is completed by a status, or with Config.ImmediateData by immediate data.
//
// # Goroutines
//
// An engine has one goroutine for each provider (accepting), one for each lineage of SMB sessions that
// negotiated (waiting for its end), one for each connection (its receive loop), one that looks
// for stalled connections, one that balances credits, and the workers of two pools. A connection
// starts a goroutine for each file source that it closes. Server.Close waits for all of them.
//
// # Memory
//
// The receive buffers of a connection are one mapping. Its pages of data are committed when
// data arrives, and given back with the credit. Headers and answers share a page or two. No
// region of the server has remote rights, so a client can write into receives only.
//
// # Hostile clients
//
// Before AUTH a connection has one receive, two over a provider with rdma.CapDirectFile, and
// five seconds. A violation of the protocol that makes the state of the connection uncertain ends
// the connection. Other errors are answered with a status. Limits bound connections, keys, files,
// requests and memory. One connection holds at most a quarter of a buffer pool. The server cuts a
// connection whose client does not receive its answers, or whose I/O delays the close of a file.
//
// # Locks
//
// Locks are taken in this order: connTable.mu, sendQueue.mu, then workerPool.mu, bufferPool.mu,
// and the locks of vfs. All others are leaves: engine.mu, creditState.mu, replayCache.mu,
// fileTable.mu, creditPool.mu, shareTable.mu, and the lock of the association. replayTable.mu comes before the locks
// of vfs, and doubt.mu and the lock of a log of writes after them. No lock is held over a post, and none
// over I/O except replayTable.mu while the log of a connection is removed.
//
// Source: [LWIO §I/O Processing] [LWIO claim 16]
package server
