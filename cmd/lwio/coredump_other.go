//go:build !unix

package main

// forbidCoreDumps does nothing: the system makes no core dumps.
func forbidCoreDumps() error { return nil }
