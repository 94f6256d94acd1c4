//go:build !unix

// Package descriptors tells how many files and sockets a process may have open.
package descriptors

// Limit is 0: no limit is known.
func Limit() int { return 0 }
