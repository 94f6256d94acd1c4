package hostmemory

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Total is how much memory the host has, in bytes, or math.MaxInt64 if it does not say.
func Total() int64 {
	var i unix.Sysinfo_t
	if unix.Sysinfo(&i) != nil {
		return math.MaxInt64
	}
	return int64(uint64(i.Totalram) * uint64(i.Unit))
}

// Usable is how much of that this process may have, in bytes: all, or what the control
// groups that it is in allow if that is less.
func Usable() int64 { return min(Total(), groupLimit("/proc/self/cgroup", "/sys/fs/cgroup")) }

// groupLimit is the smallest limit of the memory groups that are named in list, and of those
// above them, as far as they are seen below root.
func groupLimit(list, root string) int64 {
	least := int64(math.MaxInt64)
	text, err := os.ReadFile(list)
	if err != nil {
		return least
	}
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) < 3 {
			continue
		}
		base, name := root, "memory.max"
		if f[0] != "0" || f[1] != "" { // of the old kind, with a tree for each controller
			if !strings.Contains(","+f[1]+",", ",memory,") {
				continue
			}
			base, name = filepath.Join(root, "memory"), "memory.limit_in_bytes"
		}
		for group := filepath.Join("/", f[2]); ; group = filepath.Dir(group) {
			least = min(least, limitIn(filepath.Join(base, group, name)))
			if group == "/" {
				break
			}
		}
	}
	return least
}

// limitIn is what a file has of a limit; a group without one, or that is not to be seen, has
// none.
func limitIn(file string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return math.MaxInt64
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n <= 0 {
		return math.MaxInt64
	}
	return n
}
