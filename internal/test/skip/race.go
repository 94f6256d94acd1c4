//go:build race

package skip

// raceEnabled is whether the race detector is on.
const raceEnabled = true
