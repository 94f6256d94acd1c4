//go:build !unix

package host

// DiscardPages does nothing: this system has no way to return memory.
func DiscardPages([]byte) {}
