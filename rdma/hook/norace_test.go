//go:build !race

package hook_test

const raceEnabled = false
