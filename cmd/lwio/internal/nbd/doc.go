// Package nbd serves files of shares as network block devices, to QEMU, Linux kernels, libnbd and other
// clients of the NBD protocol.
//
// A [Server] has a list of [Export] values, each an open file of a share. A connection begins with a handshake
// (handshake.go), in which the client chooses an export, and goes on with the transmission of requests and
// replies (transmission.go). The codec of the messages is package nbdwire.
//
// # Goroutines and ownership
//
// Each connection has a goroutine of the server for its handshake, and then workers. Each worker has an
// lwio.Batch. One worker at a time is the leader of the connection: it reads requests, queues their I/O in
// its batch, waits for completions, and writes the replies, all without a switch to another goroutine. If
// the leader waits for longer than handOverTime while it could read, another worker becomes the leader, and
// the old one finishes its operations. So a slow operation delays no request behind it, and replies leave in
// the order in which operations end. Requests that are neither reads nor writes have a goroutine each, at
// most maxSlow for a connection.
//
// The data of reads and writes is in memory of the connection's arena, an lwio.Buffer: the share is read into it
// by RDMA, and the socket is written from it. Headers are in other memory, which the server of the share
// cannot change.
//
// # Locks
//
// The mutexes transmission.mu, transmission.send, arena.mu and Export.mu are never held together, except
// that a caller of send holds nothing else.
package nbd
