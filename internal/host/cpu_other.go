//go:build !unix

package host

import "time"

// CPUTime is the processor time that this process has used so far: 0, as the system does not
// report it.
func CPUTime() time.Duration { return 0 }
