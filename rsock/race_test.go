//go:build race

package rsock

// raceEnabled says whether the race detector runs.
const raceEnabled = true
