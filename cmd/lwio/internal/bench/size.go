package bench

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseSize reads a size in bytes as fio writes it: 4k, 64KiB, 1m, 1g. The units
// are powers of 1024.
func ParseSize(s string) (int64, error) {
	digits := strings.TrimRight(strings.ToLower(s), "kmgtib")
	n, err := strconv.ParseInt(digits, 10, 64)
	shift, ok := map[string]int{
		"": 0, "b": 0, "k": 10, "kb": 10, "kib": 10, "m": 20, "mb": 20, "mib": 20, "g": 30, "gb": 30, "gib": 30, "t": 40, "tb": 40, "tib": 40,
	}[strings.ToLower(s[len(digits):])]
	if err != nil || !ok || n <= 0 || n > 1<<62>>shift {
		return 0, fmt.Errorf("%q is no size, such as 4k or 1m", s)
	}
	return n << shift, nil
}

// FormatSize is the inverse of ParseSize.
func FormatSize(n int64) string {
	for _, u := range []struct {
		shift int
		name  string
	}{{40, "t"}, {30, "g"}, {20, "m"}, {10, "k"}} {
		if n >= 1<<u.shift && n%(1<<u.shift) == 0 {
			return strconv.FormatInt(n>>u.shift, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}
