//go:build !unix

package host

import "io/fs"

// CheckPrivate checks nothing: the system has no such modes.
func CheckPrivate(fs.FileInfo) error { return nil }
