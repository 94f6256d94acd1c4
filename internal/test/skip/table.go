package skip

import (
	"net"
	"os"
	"strconv"
	"strings"
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
	race    = func() bool { return raceEnabled }
	short   = testing.Short
	root    = func() bool { return os.Getuid() == 0 }
	notRoot = func() bool { return os.Getuid() != 0 }
	noAdmin = func() bool {
		status, err := os.ReadFile("/proc/self/status")
		return err != nil || !hasCapability(string(status), capSysAdmin)
	}
	noIPv6 = func() bool {
		addrs, err := net.InterfaceAddrs()
		return err != nil || !hasIPv6Loopback(addrs)
	}
)

// capSysAdmin is CAP_SYS_ADMIN of Linux: the right to mount, and to make namespaces.
const capSysAdmin = 21

// hasCapability reports whether a status file of /proc shows an effective capability.
func hasCapability(status string, capability int) bool {
	_, rest, _ := strings.Cut(status, "\nCapEff:")
	set, _, _ := strings.Cut(rest, "\n")
	bits, err := strconv.ParseUint(strings.TrimSpace(set), 16, 64)
	return err == nil && bits>>capability&1 != 0
}

// hasIPv6Loopback reports whether the addresses of a host contain ::1.
func hasIPv6Loopback(addrs []net.Addr) bool {
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(net.IPv6loopback) {
			return true
		}
	}
	return false
}

// Reasons to accept a skip.
const (
	withoutRace  = "the tier without the race detector runs it"
	withoutShort = "the tiers without -short run it"
	oneProvider  = "the case does not exist for this provider"
)

// table has the skips that continuous integration accepts, in every module.
var table = []entry{
	{"lwio", "the race detector allocates", race, withoutRace},
	{"lwio/clib", "no right to mount", noAdmin, "a container may lack the right"},
	{"lwio/integration/packaging", "only root installs packages", notRoot, "a run as root installs it"},
	{"lwio/integration/survive", "no right to make namespaces", noAdmin, "a container may lack the right"},
	{"lwio/integration/survive", "the kernel does not translate addresses", nil, "a kernel may lack connection tracking, and a container the right to its settings"},
	{"lwio/internal/test/leakcheck", "the runtime kept", nil, "the runtime frees its pooled pipes at any garbage collection"},
	{"lwio/rdma/iwarp", "the race detector empties pools", race, withoutRace},
	{"lwio/rdma/rdmatest", "each case waits for its time limit", short, withoutShort},
	{"lwio/rdma/rdmatest/fault", "the race detector empties pools", race, withoutRace},
	{"lwio/rdma/shm", "the race detector allocates", race, withoutRace},
	{"lwio/rdma/shm", "the race detector does not see the order that a word in shared memory makes", race, withoutRace},
	{"lwio/rsock", "a fabric inside the host connects it to itself, or is none", nil, oneProvider},
	{"lwio/rsock", "a fabric inside the host has no addresses", nil, oneProvider},
	{"lwio/rsock", "no IPv6 here", noIPv6, "a container may have no IPv6"},
	{"lwio/rsock", "no right to make a network namespace", noAdmin, "a container may lack the right"},
	{"lwio/rsock", "another program has the first port by now", nil, "another process may take the port meanwhile"},
	{"lwio/server", "the race detector empties pools", race, withoutRace},
	{"lwio/server", "the race detector takes memory for each object", race, withoutRace},
	{"lwio/vfs", "root may do everything", root, "a run as another user runs it"},
	{"lwio/vfs/posix", "not allowed to mount a small disk", noAdmin, "a container may lack the right"},
	{"lwio/vfs/posix", "the kernel cached all of the pages or none in each try", nil, "the kernel decides on readahead and reclaim"},
}
