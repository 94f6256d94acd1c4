// Package soft is what a provider in software is made of, whatever carries its
// data: the objects of a protection domain and the order in which they end, the
// completion queue, unpredictable handles, and queues of requests.
//
// Only providers import it. It knows the seam (package rdma) and nothing of any
// transport; what a completion queue needs of a connection is the interface
// Driver.
//
// # Locks
//
// A Domain's lock and a CompletionQueue's are the last that are taken: nothing of
// a provider is called while they are held.
//
// Source: [ND Overview]
package soft
