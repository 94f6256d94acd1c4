// Package rdma is the interface between users and providers of remote direct memory
// access. It restates version 2 of the NetworkDirect service provider interface as Go
// interfaces and values. The providers, such as rdma/iwarp, implement it. They depend
// neither on each other nor on their users.
//
// # Objects
//
// A [Provider] stands for a fabric and opens an [Adapter] by its address. The adapter
// makes all other objects, and closes them in its own Close.
//
//	Provider ─► Adapter ─┬► CompletionQueue      where results appear
//	                     ├► MemoryRegion         memory that the adapter may touch
//	                     ├► MemoryWindow         a part of a region, exposed to one peer
//	                     ├► SharedReceiveQueue   receives shared by queue pairs
//	                     ├► QueuePair            where work is posted, in order
//	                     ├► FileSource           a file that an RDMA write may send from
//	                     ├► Connector            one connection, from either side
//	                     └► Listener             incoming connections
//
// # Two paths
//
// The calls of the data path ([QueuePair.Post], [QueuePair.PostReceive],
// [CompletionQueue.Poll]) neither block nor allocate. The outcome of a request appears
// only in a completion queue; an error of a post means that the request was not queued.
// The calls of the control path take a context and return when the operation is over. A
// context that ends gives an error that is both the context's and [StatusCanceled].
//
// # Buffers
//
// From the post of a request until its result is polled the adapter owns the memory that
// the request names. A registered region belongs to the program, but a peer that holds
// its token may write it, if the region allows that, until [MemoryRegion.Close] has
// returned. After that no byte of it changes.
//
// # Order
//
// Requests of one queue pair take effect at the peer in the order of posting. A receive
// completes only after all earlier requests of the peer are placed. Whether a write may
// be visible before a later send is delivered depends on the adapter: see
// [CapInOrderPlacement].
//
// The active side of a connection sends first. Until the passive side has received a
// message, the provider may hold back its requests.
//
// Source: [ND Overview], [ND §3]
package rdma
