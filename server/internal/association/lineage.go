package association

import "lwio/internal/ratelimit"

// Lineage is a chain of SMB sessions of one client, which outlives their connections. Its dynamic value is
// a pointer. It is the vfs owner of the opens of its sessions.
//
// Source: [OP-41] [OP-42]
type Lineage interface {
	// ID returns the id of the first session.
	ID() uint64
	// User returns the canonical name of the user.
	User() string
	// Limiter bounds the requests and bytes of the user; nil is no bound.
	Limiter() *ratelimit.Limiter
	// Retain keeps the lineage for a time without a session, for its connections.
	Retain()
	// Done returns a channel that is closed when the lineage has ended.
	Done() <-chan struct{}
	// LoggedOff reports, once Done is closed, whether the client ended the lineage.
	LoggedOff() bool
}

// Conn is an admitted RDMA connection. Its dynamic value is a pointer. The methods are safe for
// concurrent use and do not block.
type Conn interface {
	// Fence ends the connection because its client has replaced it.
	Fence()
	// EndLineage ends the connection because its lineage has ended.
	EndLineage(loggedOff bool)
	// Done returns a channel that is closed when the connection has released all its resources.
	Done() <-chan struct{}
}
