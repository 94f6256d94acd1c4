//go:build !linux

package host

import "os"

// PagesCached reports that the state of the page cache is unknown.
func PagesCached(*os.File, int64, int) (cached, known bool) { return false, false }
