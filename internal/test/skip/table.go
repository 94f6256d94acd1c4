package skip

import (
	"os"
	"testing"
)

// entry accepts a skip in continuous integration.
type entry struct {
	pkg, reason string
	when        func() bool // nil is always
	because     string
}

// Conditions of entries.
var (
	race  = func() bool { return raceEnabled }
	short = testing.Short
	root  = func() bool { return os.Getuid() == 0 }
)

// Reasons to accept a skip.
const (
	withoutRace  = "the tier without the race detector runs it"
	withoutShort = "the tiers without -short run it"
	oneProvider  = "the case does not exist for this provider"
)

// table has the skips that continuous integration accepts, in every module.
var table = []entry{
	{"lwio", "the race detector allocates", race, withoutRace},
	{"lwio/internal/test/leakcheck", "the runtime kept", nil, "the runtime frees its pooled pipes at any garbage collection"},
	{"lwio/rdma/iwarp", "the race detector empties pools", race, withoutRace},
	{"lwio/rdma/rdmatest", "each case waits for its time limit", short, withoutShort},
	{"lwio/rdma/rdmatest/fault", "the race detector empties pools", race, withoutRace},
	{"lwio/rdma/shm", "the race detector allocates", race, withoutRace},
	{"lwio/rdma/shm", "the race detector does not see the order that a word in shared memory makes", race, withoutRace},
	{"lwio/rsock", "a fabric inside the host connects it to itself, or is none", nil, oneProvider},
	{"lwio/rsock", "a fabric inside the host has no addresses", nil, oneProvider},
	{"lwio/rsock", "a fabric inside the host reaches no other", nil, oneProvider},
	{"lwio/rsock", "no IPv6 here", nil, "a container may have no IPv6"},
	{"lwio/rsock", "no right to make a network namespace", nil, "a container may lack the right"},
	{"lwio/rsock", "another program has the first port by now", nil, "another process may take the port meanwhile"},
	{"lwio/server", "the race detector empties pools", race, withoutRace},
	{"lwio/vfs", "root may do everything", root, "a run as another user runs it"},
	{"lwio/vfs/posix", "not allowed to mount a small disk", nil, "a container may lack the right"},
	{"lwio/vfs/posix", "the kernel cached all of the pages or none in each try", nil, "the kernel decides on readahead and reclaim"},
}
