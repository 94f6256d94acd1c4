//go:build linux

package shm

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
)

// users finds the users of peers. In a user namespace the kernel reports one number, the
// overflow number, for every user that has no number there. So that number identifies no
// user, even if a process of the namespace runs under it. Safe for concurrent use.
type users struct {
	once     sync.Once
	overflow uint32
	all      bool // every user has a number in this process's user namespace
}

// init reads the numbers of the namespace, which is the same for the life of the process.
// Without /proc it assumes that some users have no number.
func (u *users) init() {
	u.overflow = overflowUID
	if text, err := os.ReadFile("/proc/sys/kernel/overflowuid"); err == nil {
		if n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32); err == nil {
			u.overflow = uint32(n)
		}
	}
	text, _ := os.ReadFile("/proc/self/uid_map")
	u.all = mapsAll(text)
}

// overflowUID is the overflow number of most systems.
const overflowUID = 65534

// mapsAll reports whether a uid_map has a number for every user.
func mapsAll(text []byte) bool {
	total := uint64(0)
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 {
			return false
		}
		n, err := strconv.ParseUint(fields[2], 10, 32)
		if err != nil {
			return false
		}
		total += n
	}
	return total >= UnmappedUID // which is no user
}

// of returns the user for a number of the kernel.
func (u *users) of(uid uint32) uint32 {
	u.once.Do(u.init)
	if uid == u.overflow && !u.all {
		return UnmappedUID
	}
	return uid
}

// checkUser checks the user of the process at the other end with AllowUID, and returns it.
// It refuses a user with too many descriptors that wait to be closed.
func (p *Provider) checkUser(nc *net.UnixConn) (uid uint32, err error) {
	if uid, err = peerUID(nc); err != nil {
		return 0, err
	}
	if uid = p.users.of(uid); !p.cfg.allowUID(uid) {
		if uid == UnmappedUID {
			return 0, fmt.Errorf("%w: it has no number in this user namespace", errUser)
		}
		return 0, fmt.Errorf("%w: %d", errUser, uid)
	}
	if p.foreign.full(uid) {
		return 0, errForeign
	}
	return uid, nil
}
