// Package shm is an RDMA provider for processes on one Linux host. They share
// nothing but a Unix socket in the abstract name space; all data goes through
// sealed memory files that are passed over it.
//
//	p := shm.New(nil)
//	a, err := p.OpenAdapter(ctx, netip.Addr{})
//	l, err := rdma.Listen(ctx, a, rdma.Addr{Fabric: shm.Name}, 0)
//
// An address is the boot id of the host and the name of the socket. Both sides
// ask the kernel who the other one is, and a policy (Config.AllowUID) whether
// that user may be a peer.
//
// It has Send, RDMA Read, RDMA Write from memory and from files, with immediate data
// too, in-order placement, memory windows and shared receive queues. Atomics answer
// rdma.StatusNotSupported.
//
// # Ways of the data
//
// Each side has a segment that it alone writes and the peer only reads: control
// words and a table of what the peer may write, which a seal keeps the peer from writing,
// and a ring, which its owner never reads. A send goes through the
// ring: the sender copies it in, the receiver copies it out. So does a write to
// ordinary memory of Go: the target's process places it. A read of such memory is
// an entry in the ring that the target answers by others in its own. A side that finds
// its ring empty goes back to the ring's beginning after a while, so that what two sides
// exchange by turns stays in the processors' caches, however large the ring. When a
// connection rests, the pages of a ring that is empty go (queuePair.Rest).
//
// A write to memory of Adapter.Alloc, or a read of it, is one-sided. The first one through a
// connection goes through the ring; with it the target knows that the peer was
// given the token, enters the region in its table, and passes the memory file.
// From then on the initiator looks into the table and copies straight into the
// place, reads a file there, or copies out of it, and no code of the target runs.
// What goes which way keeps the order of posting: a request is direct only while
// every write and read before it has been taken out of the ring, and a message comes
// behind the writes before it. Only messages may be overtaken, by writes that come after
// them, as on any device: nobody knows of a message before it is taken.
//
// A send with rdma.FlagByReference leaves its last bytes in memory of Alloc, if the peer has
// that memory: only what is before them is in the ring. The first send from a region
// hands it to the peer, if it has a remote right. The close of the region waits until all
// loans are released; the end of a connection ends them, and waits for those in use.
//
// # The boundary is the memory file
//
// Who got a memory file has it until its process ends, all of it, to read and to
// write. Tokens, bounds and rights guard against mistakes, not against a hostile
// peer that got the file. Therefore a memory is passed to one peer, on one
// connection, and never again; regions on it that others use are reached by copy.
// A program keeps in it only what that one peer may see. When a region is closed
// its slot is cleared, and Close waits for a write that is under way; a peer that
// does not come to an end with it in time (Config.DrainTimeout) is left with the
// old pages, and others with the same content are mapped in their place; the rest of
// that memory is reached by copy from then on. The peer's mapping stays as it is, as
// nothing can take it away: a peer that breaks the protocol, and says that it is not
// writing while it is, or hangs up and goes on, still writes into closed regions of
// the memory that it was given. Memory that is not populated is refused, control words and
// rings of up to 256 KiB excepted, and what is mapped counts towards a limit of the
// connection (Config.MaxPeerMemory) and one of all (Config.MaxMappedMemory).
//
// A peer can do whatever it likes with its segment and its memory: they cannot
// shrink, each word of a header is read once and checked afterwards, nothing of
// payload is ever interpreted, and a fault in a peer's memory ends the connection.
// Payload that the peer changes while it is copied arrives changed.
//
// # Goroutines
//
// A connection has one goroutine for its whole life. It sleeps on the socket, in
// the network poller. A killed peer is the end of the stream, and what it had
// published whole is still taken. A goroutine that polls a completion queue looks
// into the rings of its connections itself (up to four of them), and one that waits
// in Wait on a queue of one connection is woken by the peer itself, and then
// looks. The word in its segment with which each side says how it sleeps knows
// four ways:
//
//   - not: somebody polls, or waited a moment ago, and the peer need not wake
//     anybody. If that one stays away for a millisecond, or for up to 16 after it came
//     back again and again, the goroutine takes over.
//   - on the socket: the goroutine does, and the peer sends it one byte.
//   - on the bell: who waits in Wait does, in the network poller. The bell is
//     two pairs of sockets, one in each direction, and is rung by shutting down what
//     an end sends, each time anew: the poller is told, and nothing is sent that takes
//     memory and has to be read (OpenAdapter sees whether the kernel does that). It is
//     no eventfd, as that is one object with flags and a count which both sides can
//     set: a peer could make a write to it block for ever. It is no pipe, as who reads
//     or writes one can hold a lock that the other waits for. Who is woken so, and has
//     been prompt to answer, rings before it takes what came (prompter), so that the
//     peer gets up meanwhile.
//   - on a futex, with Config.BlockingWait: who waits in Wait does, and blocks
//     its thread. The word is in the segment of who wakes, who alone can change it.
//
// What is posted is done by the poster, as far as there is room in the ring, and
// else by the connection's goroutine or by who polls. A write from a file whose
// pages are not in memory is done by a goroutine of its own, while later requests
// wait in the queue.
//
// # Locks
//
// Adapter, listener and connector locks come before conn.rxMu, this before
// that of a receive queue and backing.mu, that before memory.mu, shares.mu. A completion
// queue's lock, rest.mu and loans.mu are the last; rest.seat comes before conn.rxMu.
// queuePair.mu is held for no long copy and no system call but a short read of what is in
// the page cache, but may wait for the end of a
// copy through a window that is being invalidated; who sends holds its baton
// (queuePair.writing).
//
// Source: [ND Overview], [OP-89b], [OP-113], [OP-114]
package shm
