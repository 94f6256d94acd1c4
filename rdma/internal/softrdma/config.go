package softrdma

import (
	"cmp"
	"log/slog"
)

// SetDefault sets *v to unset where it is zero or negative.
func SetDefault[T cmp.Ordered](v *T, unset T) {
	var zero T
	if *v <= zero {
		*v = unset
	}
}

// SetListening sets the defaults of a provider's limits on listeners, and a logger that
// discards where there is none.
func SetListening(startups, backlog *int, logger **slog.Logger) {
	SetDefault(startups, 256)
	SetDefault(backlog, 1024)
	if *logger == nil {
		*logger = slog.New(slog.DiscardHandler)
	}
}
