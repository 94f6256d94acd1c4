package server

import "lwio/internal/ratelimit"

// session is what LWIO needs to know of an SMB session. Its dynamic value is a
// pointer, and the vfs owner of the session's opens.
//
// Source: [OP-41] [OP-46b]
type session interface {
	ID() uint64
	User() string
	// ApplicationKey is the session's key for what rides beside SMB; zero if it
	// has none.
	ApplicationKey() [16]byte
	// Limiter bounds the requests and bytes of the user; nil is no bound.
	Limiter() *ratelimit.Limiter
	// Done is closed when the session has ended.
	Done() <-chan struct{}
	// LoggedOff reports, once Done is closed, whether the client ended it.
	LoggedOff() bool
}
