//go:build !race

package lwio

const raceDetector = false
