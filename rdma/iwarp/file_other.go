//go:build !linux

package iwarp

// preadCached returns errNotCached: this system does not report which pages are in memory.
func preadCached(int, []byte, int64) (int, error) { return 0, errNotCached }
