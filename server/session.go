package server

import "lwio/internal/rate"

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
	// Pace is how fast the user's requests may come; nil for as fast as they like.
	Pace() *rate.Pace
	// Done is closed when the session has ended.
	Done() <-chan struct{}
	// LoggedOff reports, once Done is closed, whether the client ended it.
	LoggedOff() bool
}
