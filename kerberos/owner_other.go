//go:build !unix

package kerberos

import "io/fs"

const openNonblock = 0

// checkOwner accepts each file: the system has no such owners.
func checkOwner(fs.FileInfo) error { return nil }
