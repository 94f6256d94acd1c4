// Package softrdma has the parts of a software provider that do not depend on its
// transport: the objects of a protection domain and the order of their end, completion
// queues, memory regions and windows with unpredictable tokens, receive queues, shared
// receive queues, the initiator queue and state of a queue pair, file sources, adapters,
// and the phases of connectors and listeners. Windows.Resolve checks every request for
// memory that this side carries out for a peer. A peer over shared memory also copies
// directly, without Resolve (package shm).
//
// Only providers import it. It knows the seam (package rdma) and no transport. A
// completion queue uses a connection through the interface Driver, a queue pair through
// Transport; connectors and listeners make connections through Network.
//
// # Locks
//
// The lock of a Listener comes before the lock of a Connector, and both come before the
// locks of queue pairs. The locks of a Domain, of its regions and of a CompletionQueue
// are the last; no method of a provider is called while they are held. The lock of the
// InitiatorQueue guards the windows of a queue pair. Resolve takes no lock. It takes
// references, and holds them for one copy or one system call that does not block.
// Region.Close takes the locks of queue pairs if a window was ever bound to the region.
//
// Source: [ND Overview]
package softrdma
