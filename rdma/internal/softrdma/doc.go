// Package softrdma is what a provider in software is made of, whatever carries its
// data: the objects of a protection domain and the order in which they end, the
// completion queue, memory regions and windows with unpredictable tokens, the one
// way of a peer's request to memory (Windows.Resolve), receive queues with their
// checks, and shared ones, and the phases of connectors and listeners.
//
// Only providers import it. It knows the seam (package rdma) and nothing of any
// transport; what a completion queue needs of a connection is the interface
// Driver, and what connectors and listeners need to make one is Network.
//
// # Locks
//
// A Listener's lock comes before a Connector's, and that before those of queue pairs.
// A Domain's lock, that of its regions and a CompletionQueue's are the last that are taken:
// nothing of a provider is called while they are held. The windows of a queue pair
// work under a lock of that pair; who looks for memory takes none, but references,
// and holds those for one copy or one system call that does not block.
// Region.Close takes the locks of queue pairs, if the region was ever lent.
//
// Source: [ND Overview]
package softrdma
