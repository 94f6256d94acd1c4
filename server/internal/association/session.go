package association

import "lwio/internal/ratelimit"

// Session is an SMB session. Its dynamic value is a pointer. It is the vfs owner of the session's
// opens.
//
// Source: [OP-41] [OP-46b]
type Session interface {
	ID() uint64
	// User returns the canonical name of the user.
	User() string
	// ApplicationKey returns the key of the session for protocols beside SMB; zero if it has
	// none.
	ApplicationKey() [16]byte
	// Limiter bounds the requests and bytes of the user; nil is no bound.
	Limiter() *ratelimit.Limiter
	// Done returns a channel that is closed when the session has ended.
	Done() <-chan struct{}
	// LoggedOff reports, once Done is closed, whether the client ended the session.
	LoggedOff() bool
}

// Conn is an admitted RDMA connection. Its dynamic value is a pointer. The methods are safe for
// concurrent use and do not block.
type Conn interface {
	// Fence ends the connection because its client has replaced it.
	Fence()
	// EndSession ends the connection because its SMB session has ended.
	EndSession(loggedOff bool)
	// Done returns a channel that is closed when the connection has released all its resources.
	Done() <-chan struct{}
}
