//go:build race

package iwarp

// raceEnabled says that the race detector watches, under which pools forget.
const raceEnabled = true
