package softrdma

import (
	"cmp"
	"log/slog"
)

// SetDefault sets *v to unset if it is zero or negative.
func SetDefault[T cmp.Ordered](v *T, unset T) {
	var zero T
	if *v <= zero {
		*v = unset
	}
}

// SetListening sets the defaults of a provider's limits on listeners. A nil logger
// becomes a logger that discards.
func SetListening(startups, backlog *int, logger **slog.Logger) {
	SetDefault(startups, 256)
	SetDefault(backlog, 1024)
	if *logger == nil {
		*logger = slog.New(slog.DiscardHandler)
	}
}
