//go:build race

package iwarp

// raceEnabled states that the race detector is on. Pools then drop objects.
const raceEnabled = true
