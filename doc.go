// Package lwio reads and writes files that another machine, or another process,
// serves: named and authenticated by SMB, moved by RDMA.
//
// # Use
//
//	c, err := lwio.Dial(ctx, "lwio://alice:secret@host/share", nil)
//	f, err := c.Open(ctx, "db/app.db")
//	n, err := f.ReadAt(p, off)
//
// [Dial] opens an SMB session, asks the server which RDMA providers both sides
// have, connects over the first that works, and both sides authenticate each other.
// From then on every [File] is named over SMB and its data moves
// over RDMA. If no provider is common, or LWIO is off at the server, the same
// calls run over SMB alone, and [Client.Transport] says so with the reason;
// Config.RequireRDMA refuses that.
//
// A [Batch] keeps many operations in flight from one goroutine, and a [Buffer] is
// memory that they need not copy or register:
//
//	buf, err := c.Alloc(ctx, 32<<12)
//	b := c.NewBatch(32)
//	for i := range 32 {
//		err = b.Read(f, buf.Bytes()[i<<12:][:1<<12], int64(i)<<12, uint64(i))
//	}
//	done, err := b.Wait(ctx, 32)
//
// A blocking call is an operation of the same engine: calls of many goroutines share posts
// and wake-ups.
//
// # Lifecycle
//
// A Client owns one SMB session and Config.Connections RDMA connections. Close the files,
// then the client; closing the client fails everything that is still in use. All types
// but Batch are safe for concurrent use, and many reads and writes of one file may be in
// flight: as many messages as the server has granted credits, the others wait.
//
// # Deadlines
//
// Every call returns when its context ends, and calls without a deadline have
// that of Config.Timeout. A read or write that is given up has its memory taken
// back before the call returns. Its request keeps its credit until the server answers.
// When the last call on a file has given up, and when the file is closed, the client sends
// CANCEL for the requests that the server has not begun; data that still comes for memory
// that was taken back ends the RDMA connection. A [Buffer] is not taken
// back, as other calls may be using it: it is still in use until the server has answered,
// or the connection is torn down.
//
// Over SMB a call whose message is half sent has two seconds more, as half a message cannot be
// taken back: then the session is given up. [File.Lock] waits as long for the answer to its
// CANCEL.
//
// # Several connections
//
// With Config.Connections the requests are shared out: each call takes the connection with
// the fewest requests in flight, and an operation of more than 256 KiB is cut up so that
// all take part. The operations of a [Batch] are dealt over all, 256
// KiB to each at a time, so that a few small ones stay together. Each connection has credits
// and file ids of its own, and is replaced alone when it breaks, while the others go on. The
// calls that order others, Sync, Truncate, Unlock and Close, hold over all.
//
// # Locked ranges
//
// [File.Lock] keeps other clients from locking a range of a file, and from reading and
// writing it, over every transport. A client that locks a range before it reads sees all
// writes of the clients that had it locked before. A lock lives in the SMB session, and
// outlives RDMA connections; if the session is lost, so is the lock, with the file.
//
// # A lost connection
//
// While the SMB session lives, another RDMA connection takes the place of one that
// breaks. Calls wait for it, up to Config.Reconnect from the loss and never past their
// own deadline. Reads are sent again. Writes that were not answered are sent again before
// anything else is, under their old numbers, by which the server's replay cache knows their
// outcomes: each is done once. A [Batch] sends its own when Wait is called.
//
// Where that cannot be, they fail with an error that is [ErrUncertain] and net.ErrClosed:
// the server may or may not have done them. That is so if no connection comes in time, if
// the server's replay cache is gone, or if the write was more than 32,767
// messages ago. A write whose caller leaves, or runs out of time, while it is sent again fails
// with that too, and may go on at the server until a Sync, as any write that is given up.
//
// After Config.Reconnect reads and writes go over SMB, unless Config.RequireRDMA forbids it,
// until there is RDMA again. Before anything is changed over SMB the client makes the
// server end the writes that a broken connection may still carry, and wait for them: with a
// NEGOTIATE with the client key of that connection, the fence. An attempt to connect begins
// with the same.
//
// A connection that could not be made when the client was is tried again too, first after a
// second and then less and less often, up to once a minute. No call waits for that: without
// any RDMA connection all goes over SMB meanwhile, and with the first one that comes, open
// files and buffers move to it.
//
// Below 0 Config.Reconnect means that a lost or missing connection is not replaced.
//
// [Client.Transport], [Client.Stats] and the log report all of that.
//
// # Engine
//
// The packages below internal/client do the work; docs/architecture.md follows a read and a
// write through them.
//
// Source: [LWIO §Discovery], [LWIO §I/O Processing]
package lwio
