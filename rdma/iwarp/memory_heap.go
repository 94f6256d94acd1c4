//go:build !unix || race

package iwarp

// allocPages allocates size bytes of the Go heap. It is used on systems without mmap, and
// under the race detector, which does not see the order that an atomic store in mapped
// memory makes. An allocation of whole pages is page-aligned.
func allocPages(size int) ([]byte, func() error, error) {
	return make([]byte, size), func() error { return nil }, nil
}
