//go:build !linux

package host

import "time"

// limitUnacknowledged does nothing: the system has no such limit.
func limitUnacknowledged(uintptr, time.Duration) {}
