// Package shm is an RDMA provider for processes on one Linux host. Two processes need
// only a Unix socket in the abstract name space. All data goes through sealed memory
// files, which are passed over the socket.
//
//	p := shm.New(nil)
//	a, err := p.OpenAdapter(ctx, netip.Addr{})
//	l, err := rdma.Listen(ctx, a, rdma.Addr{Fabric: shm.Name}, 0)
//
// An address is the boot id of the host and the name of the socket. Each side gets the
// peer's user from the kernel. Config.AllowUID decides whether that user may be a peer.
//
// The provider offers Send, RDMA Read, RDMA Write from memory and from files, immediate
// data, in-order placement, memory windows and shared receive queues. Atomics return
// rdma.StatusNotSupported. docs/providers.md specifies the start-up and the layouts.
//
// # Paths of the data
//
// Each side owns a segment: control words, a table of the regions that the peer may
// access directly, and a ring. The owner writes it and the peer reads it. A seal prevents
// writes of the peer to the control words and the table. The owner never reads its ring.
// A send goes through the ring: the sender copies it in, the receiver copies it out. A
// write to ordinary memory of Go goes through the ring too: the target's process places
// it. A read of such memory is an entry in the ring; the target responds with entries in
// its own ring. After some KiB, a side with an empty ring returns to the ring's
// beginning. Two sides that alternate thus stay in the processors' caches, even with a
// large ring. The pages of an empty ring are returned to the system when the connection
// is idle (QueuePair.TrimIdle).
//
// A write to memory of Adapter.Alloc, or a read of it, is one-sided. The first such
// request of a connection goes through the ring. It shows the target that the peer has
// the token; the target then adds the region to its table and passes the memory file.
// From then on the initiator checks the table and copies directly: into the memory, from
// a file into the memory, or out of the memory. No code of the target runs. The order of
// posting is kept. A request is direct only when every earlier write and read has been
// taken out of the ring, and a message follows the earlier writes. Later writes may
// overtake messages, as on any device: a program does not see a message before it is
// taken.
//
// A send with rdma.FlagByReference leaves its last bytes in memory of Alloc, if the peer
// has mapped that memory. Only the bytes before them are in the ring. The first send from
// a region with a remote right passes the region to the peer. The close of the region
// waits until the peer has released all references. The end of a connection ends them,
// and waits for calls of RemoteData.View.
//
// # The boundary is the memory file
//
// A process that has received a memory file can read and write all of it until the
// process ends. Tokens, bounds and rights guard against mistakes, not against a hostile
// peer that has the file. Therefore a memory is passed to one peer, on one connection,
// and never again. Other connections access regions of that memory through the ring. A
// program keeps in such memory only data that this peer may see. When a region is closed,
// its slot is cleared, and Close waits for a write in progress. A peer that does not
// finish in time (Config.DrainTimeout) keeps the old pages. Close then maps other pages
// with the same content in their place, and the rest of the memory is accessed through
// the ring from then on. The peer's mapping cannot be revoked. A peer can break the
// protocol: it can report that it is not writing while it is, or close the connection and
// continue to write. It then still writes into closed regions of its memory. Memory that
// is not populated is refused, except control words and rings of up to 256 KiB. Mapped
// memory counts towards a limit of the connection (Config.MaxPeerMemory) and a limit of
// the provider (Config.MaxMappedMemory).
//
// A peer can change its segment and its memory at any time, but they cannot shrink. Each
// word of a header is read once and then checked, and payload is never interpreted. A
// fault in a peer's memory ends the connection. Payload that the peer changes during the
// copy arrives changed.
//
// # Goroutines
//
// A connection has one goroutine (run) for its whole life. It sleeps on the socket, in
// the network poller. The end of the stream means that the peer has ended; completely
// published entries are still taken. A goroutine that polls a completion queue reads the
// rings of up to four connections itself. A goroutine in Wait on a queue of one
// connection is woken by the peer directly, and then reads the ring. The sleep word in
// its segment states how a side sleeps. It has four values:
//
//   - awake: a goroutine polls, or has waited very recently, and the peer need not wake it.
//     If it stays away for a millisecond, run takes over. After many returns that time is
//     up to 32 milliseconds.
//   - socket: run sleeps, and the peer sends it one byte.
//   - doorbell: a goroutine sleeps in Wait, in the network poller. The doorbell is two pairs
//     of sockets, one for each direction. The peer rings it by shutting down the sending
//     side of a socket, each time anew. The kernel then notifies the network poller, and no
//     byte is sent that takes memory and must be read (OpenAdapter checks that the kernel
//     does this). An eventfd does not serve: it is one object, both sides can set its flags
//     and its count, and a peer could make a write to it block for ever. A pipe does not
//     serve either: its reader or writer can hold a lock that the other side waits for. A
//     side that the doorbell wakes, and that has answered promptly before, rings before it
//     takes the message (wakePrediction), so that the peer wakes up meanwhile.
//   - futex, with Config.BlockingWait: a goroutine waits in Wait and blocks its thread. The
//     word is in the segment of the waking side, which alone can change it.
//
// Post carries out requests itself while there is room in the ring. The goroutine run, or
// a poller, carries out the rest. If a write from a file must wait for a disk, another
// goroutine carries it out, and later requests wait in the queue.
//
// The kernel can wait in a receive, or in the close of a socket, for a descriptor that the
// peer sent. During a start-up such calls have a goroutine of their own (foreign). If run is
// in such a receive when the connection ends, another goroutine ends the connection, and run
// returns later.
//
// # Components of a connection
//
//	sender ── requestData, roomWait, readResponder, fileWriter ─► ring.Producer
//	receiver ─► ring.Consumer
//	exports     the slots by which the peer accesses this side's regions
//	mappings    the peer's memory that this side has mapped
//	references  data that the peer sent by reference
//	sleeper     which goroutine watches the ring, and how the peer wakes it
//	waker       wakes the peer; wakePrediction
//
// # Locks
//
// The locks are taken in this order: adapter, listener, connector, sleeper.seat,
// conn.rxMu, the lock of a receive queue, backing.mu, memory.mu, exports.mu. The lock of
// a completion queue, sleeper.mu and references.mu are the last. The lock of the
// initiator queue is not held during a long copy, and during no system call but a short
// read from the page cache. Its holder may wait for a copy through a window that is being
// invalidated. The goroutine that sends has the right to send (InitiatorQueue.Sending).
//
// Source: [ND Overview], [OP-89b], [OP-113], [OP-114]
package shm
