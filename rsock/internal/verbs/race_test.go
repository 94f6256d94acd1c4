//go:build race

package verbs

// raceEnabled reports whether the race detector runs, which allocates.
const raceEnabled = true
