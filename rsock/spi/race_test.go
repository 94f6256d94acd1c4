//go:build race

package spi

// raceEnabled says that the race detector is at work, which allocates.
const raceEnabled = true
