package leakcheck

import (
	"os"
	"strings"
)

// resources returns the open descriptors of the process and its shared mappings: the target of
// each, by name.
func resources() map[string]string {
	all := make(map[string]string)
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return all
	}
	for _, e := range entries {
		// The descriptor that listed the folder is gone by now.
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			all["descriptor "+e.Name()] = target
		}
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return all
	}
	for line := range strings.Lines(string(maps)) {
		if f := strings.Fields(line); len(f) >= 2 && strings.HasSuffix(f[1], "s") {
			all["mapping "+f[0]] = strings.Join(f[5:], " ")
		}
	}
	return all
}
