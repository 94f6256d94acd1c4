//go:build race

package smbauth

// raceEnabled is true where sync.Pool drops values at random.
const raceEnabled = true
