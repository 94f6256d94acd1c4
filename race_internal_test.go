//go:build race

package lwio

const raceDetector = true
