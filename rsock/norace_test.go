//go:build !race

package rsock

// raceEnabled reports whether the race detector runs.
const raceEnabled = false
