// Package shm is an RDMA provider for processes on one Linux host. They share only a Unix
// socket in the abstract name space; all data goes through sealed memory files that are
// passed over it.
//
//	p := shm.New(nil)
//	a, err := p.OpenAdapter(ctx, netip.Addr{})
//	l, err := rdma.Listen(ctx, a, rdma.Addr{Fabric: shm.Name}, 0)
//
// An address is the boot id of the host and the name of the socket. Each side gets the
// peer's user from the kernel, and Config.AllowUID decides whether that user may be a peer.
//
// The provider has Send, RDMA Read, RDMA Write from memory and from files, immediate data,
// in-order placement, memory windows and shared receive queues. Atomics return
// rdma.StatusNotSupported. docs/providers.md specifies the start-up and the layouts.
//
// # Paths of the data
//
// Each side has a segment that it alone writes and the peer reads: control words and a
// table of the regions that the peer may reach, which a seal keeps the peer from writing,
// and a ring, which its owner never reads. A send goes through the ring: the sender copies
// it in, the receiver copies it out. So does a write to ordinary memory of Go: the target's
// process places it. A read of such memory is an entry in the ring; the target responds with
// entries in its own ring. A side that finds its ring empty returns to the ring's beginning
// after a while, so that two sides that alternate stay in the processors' caches, however
// large the ring. The pages of an empty ring are returned to the system when the connection
// is idle (QueuePair.TrimIdle).
//
// A write to memory of Adapter.Alloc, or a read of it, is one-sided. The first one through a
// connection goes through the ring; with it the target learns that the peer has the token,
// enters the region in its table, and passes the memory file. From then on the initiator
// checks the table and copies straight into the place, reads a file there, or copies out of
// it, and no code of the target runs. The choice keeps the order of posting: a request is
// direct only once every earlier write and read has been taken out of the ring, and a
// message comes behind the earlier writes. Later writes may overtake messages, as on any
// device: no program sees a message before it is taken.
//
// A send with rdma.FlagByReference leaves its last bytes in memory of Alloc, if the peer has
// mapped that memory: only the bytes before them are in the ring. The first send from a
// region with a remote right hands the region to the peer. The close of the region waits
// until the peer has released all references; the end of a connection ends them, and waits
// for calls of RemoteData.View.
//
// # The boundary is the memory file
//
// A process that got a memory file has it until the process ends, all of it, to read and to
// write. Tokens, bounds and rights guard against mistakes, not against a hostile peer that
// got the file. Therefore a memory is passed to one peer, on one connection, and never
// again; regions on it that other connections use are reached through the ring. A program
// keeps in it only data that this one peer may see. When a region is closed its slot is
// cleared, and Close waits for a write that is in progress; a peer that does not finish in
// time (Config.DrainTimeout) keeps the old pages, and others with the same content are
// mapped in their place; the rest of that memory is reached through the ring from then on.
// The peer's mapping cannot be revoked: a peer that breaks the protocol, and reports that it
// is not writing while it is, or closes the connection and goes on, still writes into closed
// regions of the memory that it was given. Memory that is not populated is refused, except
// control words and rings of up to 256 KiB. Mapped memory counts towards a limit of the
// connection (Config.MaxPeerMemory) and one of the provider (Config.MaxMappedMemory).
//
// A peer can change its segment and its memory at any time: they cannot shrink, each word of
// a header is read once and checked after that, payload is never interpreted, and a fault in
// a peer's memory ends the connection. Payload that the peer changes while it is copied
// arrives changed.
//
// # Goroutines
//
// A connection has one goroutine (run) for its whole life. It sleeps on the socket, in the
// network poller. The death of a peer is the end of the stream; entries that it had
// published completely are still taken. A goroutine that polls a completion queue reads the
// rings of its connections itself (of up to four), and one that waits in Wait on a queue of
// one connection is woken by the peer directly, and then reads the ring. The sleep word in
// its segment by which each side says how it sleeps has four values:
//
//   - awake: a goroutine polls, or waited a moment ago, and the peer need not wake it. If it
//     stays away for a millisecond, or for up to 32 after it came back again and again, run
//     takes over.
//   - socket: run sleeps, and the peer sends it one byte.
//   - doorbell: a goroutine sleeps in Wait, in the network poller. The doorbell is two pairs
//     of sockets, one for each direction, and is rung by shutting down the sending side of an
//     end, each time anew: the network poller is notified, and no byte is sent that takes
//     memory and has to be read (OpenAdapter checks that the kernel does that). It is not an
//     eventfd, which is one object with flags and a count that both sides can set: a peer
//     could make a write to it block for ever. It is not a pipe, whose reader or writer can
//     hold a lock that the other one waits for. A side that is woken so, and has answered
//     promptly before, rings before it takes the message (wakePrediction), so that the peer
//     wakes up meanwhile.
//   - futex, with Config.BlockingWait: a goroutine waits in Wait and blocks its thread. The
//     word is in the segment of the waking side, which alone can change it.
//
// Post carries out requests itself, as far as there is room in the ring; run, or a poller,
// does the rest. A write from a file whose pages are not in memory has a goroutine of its
// own, while later requests wait in the queue.
//
// # Components of a connection
//
//	sender ── requestData, roomWait, readResponder, fileWriter ─► ring.Producer
//	receiver ─► ring.Consumer
//	exports     the slots by which the peer reaches this side's regions
//	mappings    the peer's memory that this side has mapped
//	references  data that the peer sent by reference
//	sleeper     which goroutine watches the ring, and how the peer wakes it
//	waker       wakes the peer; wakePrediction
//
// # Locks
//
// Adapter, listener and connector locks come before conn.rxMu, this before that of a receive
// queue and backing.mu, that before memory.mu, exports.mu. A completion queue's lock,
// sleeper.mu and references.mu are the last; sleeper.seat comes before conn.rxMu. The lock
// of the initiator queue is held for no long copy and no system call but a short read of
// pages in the page cache, but may wait for the end of a copy through a window that is being
// invalidated; the goroutine that sends has the right to send (InitiatorQueue.Sending).
//
// Source: [ND Overview], [OP-89b], [OP-113], [OP-114]
package shm
