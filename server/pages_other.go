//go:build !unix

package server

// mapPages returns zeroed memory.
func mapPages(size int) ([]byte, error) { return make([]byte, size), nil }

func unmapPages([]byte) error { return nil }
