//go:build race

package lwiotest_test

const raceEnabled = true
