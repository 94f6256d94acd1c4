package smbserver

import "fmt"

// Leases says which leases the server grants.
type Leases int

// The choices of Leases.
const (
	// LeasesAll grants leases of files and of directories, and oplocks.
	LeasesAll Leases = iota
	// LeasesOfFiles grants no lease of a directory: clients do not cache listings.
	LeasesOfFiles
	// LeasesOff grants neither leases nor oplocks: clients cache nothing. A handle that is durable and not persistent
	// needs one, so there are none of these.
	LeasesOff
)

// String returns the choice as the command spells it.
func (l Leases) String() string {
	switch l {
	case LeasesAll:
		return "all"
	case LeasesOfFiles:
		return "files"
	case LeasesOff:
		return "off"
	}
	return fmt.Sprintf("Leases(%d)", int(l))
}
