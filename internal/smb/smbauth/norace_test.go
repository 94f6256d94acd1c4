//go:build !race

package smbauth

const raceEnabled = false
