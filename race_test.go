//go:build race

package lwio_test

const raceEnabled = true
