//go:build race

package fileio

const raceDetector = true
