//go:build linux && !race

package ring

// RaceRelease does nothing without the race detector.
func RaceRelease() {}

// RaceAcquire does nothing without the race detector.
func RaceAcquire() {}
