// Package lwio reads and writes files of a server. SMB names the files and authenticates the
// user; RDMA moves the data straight into the memory of the program.
//
// # Use
//
//	c, err := lwio.Dial(ctx, "lwio://alice:secret@host/share", nil)
//	f, err := c.Open(ctx, "db/app.db")
//	n, err := f.ReadAt(p, off)
//
// [Dial] opens an SMB session and asks the server for the RDMA providers that both sides have. It
// connects by the first provider that works, and both sides authenticate each other. From then
// on SMB opens each [File], and RDMA moves its data. If no RDMA connection is possible, the same
// calls use SMB alone, and [Client.Transport] reports the reason. Config.RequireRDMA refuses SMB
// alone.
//
// A [Batch] keeps many operations in flight from one goroutine. A [Buffer] is memory that is
// registered once, so that operations neither copy nor register it:
//
//	buf, err := c.Alloc(ctx, 32<<12)
//	b := c.NewBatch(32)
//	for i := range 32 {
//		err = b.ReadAt(f, buf.Bytes()[i<<12:][:1<<12], int64(i)<<12, uint64(i))
//	}
//	done, err := b.Wait(ctx, 32)
//
// Blocking calls and batches use the same engine. Concurrent blocking calls share posts and
// wake-ups.
//
// # Lifecycle
//
// A Client owns one SMB session and Config.Connections RDMA connections. Close the files, then
// the client; files that are still open fail after that. All types but Batch are safe for
// concurrent use. Many reads and writes of one file may be in flight: as many messages as the
// server has granted credits. Further ones wait.
//
// # Deadlines
//
// Every call returns when its context ends. A call whose context has no deadline returns after
// Config.Timeout. ReadAt, WriteAt and Close of a [File] have the signatures of package io, and
// take no context; ReadAtContext and WriteAtContext take one.
//
// A read or write that is given up takes its memory back before it returns; its request keeps
// its credit until the server answers. The client sends CANCEL for the requests that the server
// has not begun when the last call on a file is given up, and when the file is closed. Data that
// arrives for memory that was taken back ends the RDMA connection.
//
// The memory of a [Buffer] is not taken back, because other calls may use it. It stays busy until
// the server has answered or the connection is torn down, see [Buffer.Busy].
//
// Over SMB a message that is half sent cannot be taken back. Such a call has two more seconds to
// send the rest; then the session ends. [File.Lock] waits as long for the answer to its cancel
// request.
//
// # Several connections
//
// With Config.Connections above 1, each call uses the connection with the fewest requests in
// flight. An operation of more than 256 KiB is split over all connections. The operations of a
// [Batch] are distributed over all, 256 KiB to each in turn, so that a few small operations stay
// together. Each connection has its own credits and file ids, and is replaced alone when it
// breaks. Sync, Truncate, Unlock and Close apply to all connections.
//
// # Byte-range locks
//
// [File.Lock] prevents other opens from locking a range of a file, and from reading and writing
// it, over every transport. A client that locks a range before it reads sees all writes that
// were made under earlier locks of the range. A lock belongs to the File. It outlives the loss of
// connections, RDMA and SMB, and ends with the File, or when the File is stale ([ErrStale]).
//
// # A lost connection
//
// The client replaces an RDMA connection that breaks. Calls wait for the new connection, for
// Config.ReconnectTimeout at most and never beyond their own deadline. Then unacknowledged writes are sent again before anything else, under their old
// sequence numbers. After them the reads are sent again. The replay cache of the server has the
// results of recent writes, so the server does not do these writes again. A [Batch] sends its
// operations again when Wait is called.
//
// A write fails with an error that matches [ErrUncertain] and net.ErrClosed if its outcome cannot
// be known: if no connection comes in time, if the replay cache is gone, if the server was killed in the middle of the write and
// others have changed the same bytes since, or if the write is more
// than 32,767 messages old, or more than 512 messages old and older than the last lost
// connection. A write whose context ends while it is sent again fails in the same way. Like every
// write that is given up, it may still take effect until a Sync.
//
// After Config.ReconnectTimeout reads and writes use SMB until there is RDMA again, unless
// Config.RequireRDMA is set. Before the first change over SMB the client fences the broken
// connection: it sends a NEGOTIATE with the client key of that connection, on which the server
// ends the connection and waits for its writes. Each attempt to reconnect begins with a fence
// too.
//
// The client also retries a connection that Dial could not make, first after one second, then
// less often, and at least once a minute. No call waits for that. When the first RDMA connection
// is made, open files and buffers move to it.
//
// If the SMB connection breaks, or the server is silent on it for Config.KeepAlive, reads and writes
// over RDMA go on, and the client logs on again. It does not keep the password for that, but its NT hash;
// with Kerberos it gets another ticket. The server has kept the files open, with their locks, and
// does not give them to others meanwhile. Calls that need SMB wait as above, and then
// go on: requests that were not sent, that do no harm if they are executed twice, or that the server
// recognizes as repeated (Open, Lock, Unlock) are sent again. A write over SMB, Mkdir, Remove or Rename
// whose answer was lost fails with [ErrUncertain]; for a write n has the bytes that are certain. A file
// that is closed meanwhile is closed at the server in the next session.
//
// The server keeps a file for a limited time without a connection, 60 s by default. After that, and
// after a restart, the calls of the File fail with [ErrStale], and nothing more is written by it. The
// client itself goes on: the program can open the file again. If the server refuses the user when
// the client logs on again, all calls fail with net.ErrClosed.
//
// With Config.ReconnectTimeout below 0 a lost or missing connection is not replaced. A lost SMB
// connection is not replaced either if the server does not keep files open, as other
// servers.
//
// [Client.Transport], [Client.Stats] (Lost, Reconnects, SMBReconnects, Reclaimed) and the log report all
// these events.
//
// # Engine
//
// The packages below internal/client are the engine. docs/architecture.md follows a read and a
// write through them.
//
// Source: [LWIO §Discovery], [LWIO §I/O Processing]
package lwio
