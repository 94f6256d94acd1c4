//go:build !race

package verbs

// raceEnabled says that the race detector is at work, which allocates.
const raceEnabled = false
