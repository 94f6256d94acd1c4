//go:build !unix

package cputime

import "time"

// Self is the time that this process has spent so far; 0, as the system does not tell.
func Self() time.Duration { return 0 }
