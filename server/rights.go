package server

import (
	"crypto/subtle"

	"lwio/vfs"
)

// Access rights of an open for reads and writes, and the option that a collapsed write needs. vfs
// checks them again.
//
// Source: [OP-57] [OP-51]
const (
	mayRead     = vfs.ReadData | vfs.Execute
	mayWrite    = vfs.WriteData | vfs.AppendData
	noBuffering = vfs.NoIntermediateBuffering
)

// equal compares secrets in a time that does not depend on them.
func equal(a, b []byte) bool { return subtle.ConstantTimeCompare(a, b) == 1 }
