// Package rdma is the seam between what uses remote direct memory access and
// what provides it. It restates version 2 of the NetworkDirect service provider
// interface as Go interfaces and values; the providers (rdma/iwarp and its
// kin) implement it and know nothing of each other or of their users.
//
// # Objects
//
// A [Provider] stands for a fabric and opens an [Adapter] by its address. The
// adapter makes everything else, and closing it closes everything that it made.
//
//	Provider ─► Adapter ─┬► CompletionQueue      where results appear
//	                     ├► MemoryRegion         memory that the adapter may touch
//	                     ├► MemoryWindow         a part of a region lent to one peer
//	                     ├► SharedReceiveQueue   receives shared by queue pairs
//	                     ├► QueuePair            where work is posted, in order
//	                     ├► FileSource           a file that an RDMA write may send from
//	                     ├► Connector            one connection, from either side
//	                     └► Listener             incoming connections
//
// # Two paths
//
// On the data path ([QueuePair.Post], [QueuePair.PostReceive],
// [CompletionQueue.Poll]) nothing blocks, nothing allocates, and the outcome of
// a request appears only in a completion queue; the error of a post says that
// the request was not queued. On the control path a call takes a context,
// returns when the operation is over, and a context that ends gives an error
// that is both the context's and [StatusCanceled].
//
// # Buffers
//
// From the post of a request until its completion was polled the adapter owns
// the memory that the request names. A registered region belongs to the program,
// but a peer that holds its token may write it (if the region allows that) until
// [MemoryRegion.Close] has returned; after that no byte of it changes.
//
// # Order
//
// Requests of one queue pair take effect at the peer in the order of posting. A
// receive completes only after everything that the peer posted before its send
// has been placed. Whether a write may be seen before a later send is delivered
// depends on the adapter: see [CapInOrderPlacement].
//
// The active side of a connection sends first: a passive side that posts before
// it has received anything may see its request held back by the provider.
//
// Source: [ND Overview], [ND §3]
package rdma
