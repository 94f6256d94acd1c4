//go:build !race

package rdmaconn

// statusMemory returns the memory of the status blocks of a connection: the adapter's
// memory b.
func statusMemory(b []byte) []byte { return b }
