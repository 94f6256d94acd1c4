// Package fileio is the one engine of the client: it splits operations on files into requests,
// keeps those in flight over RDMA or over SMB, replays them after the loss of a connection, and
// collects their completions. A Batch and a blocking call use the same queue.
//
// # Files
//
//   - client.go, dial.go, file.go: the client and its files.
//   - queue.go, queuesend.go, queueend.go: the engine; operation.go, parts.go, vector.go: an
//     operation and its split into requests.
//   - flight.go: the operations of a queue in flight on one connection.
//   - replay.go: writes that are sent again; transfer.go: operations over SMB.
//
// # Goroutines
//
// A queue has none over RDMA: the goroutine that waits for it sends and collects. Over SMB each
// part of an operation has one, except the only part of a blocking call; the end of the call, or
// Batch.Close, waits for them.
//
// # Mutexes
//
// In this order: fileio.PendingFile.mu, paths.Path.Turn, the locks of package rdmaconn, which has
// an order of its own, the lock of barrier.Barrier, paths.Path.Mu. Only PendingFile.mu, Path.Turn
// and a pin of a connection are held while waiting for a peer.
//
// Source: [LWIO §I/O Processing]
package fileio
