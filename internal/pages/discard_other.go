//go:build !unix

package pages

// Discard does nothing, where there is no way to give memory back.
func Discard([]byte) {}
