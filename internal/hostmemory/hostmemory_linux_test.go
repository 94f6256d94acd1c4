package hostmemory

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestMemory(t *testing.T) {
	if n := Total(); n < 1<<24 || n == math.MaxInt64 {
		t.Errorf("a host with %d bytes", n)
	}
	if Usable() > Total() || Usable() <= 0 {
		t.Errorf("%d bytes of %d may be used", Usable(), Total())
	}
}

// The smallest limit of the groups above counts, of both kinds of control groups.
func TestGroupLimit(t *testing.T) {
	for name, c := range map[string]struct {
		list  string
		files map[string]string
		want  int64
	}{
		"none":               {"", nil, math.MaxInt64},
		"not seen":           {"0::/a/b\n", nil, math.MaxInt64},
		"own":                {"0::/a/b\n", map[string]string{"a/b/memory.max": "4096\n"}, 4096},
		"above":              {"0::/a/b\n", map[string]string{"a/b/memory.max": "max\n", "a/memory.max": "8192\n"}, 8192},
		"least":              {"0::/a/b\n", map[string]string{"a/b/memory.max": "9000", "a/memory.max": "7000", "memory.max": "8000"}, 7000},
		"not a number":       {"0::/\n", map[string]string{"memory.max": "much"}, math.MaxInt64},
		"of the old kind":    {"3:cpu,memory:/x\n", map[string]string{"memory/x/memory.limit_in_bytes": "12288"}, 12288},
		"old, no limit":      {"9:memory:/\n", map[string]string{"memory/memory.limit_in_bytes": "9223372036854771712"}, 9223372036854771712},
		"another controller": {"3:cpu:/x\n", map[string]string{"memory/x/memory.limit_in_bytes": "1", "x/memory.max": "1"}, math.MaxInt64},
		"a broken line":      {"3\n0::/\n", map[string]string{"memory.max": "77"}, 77},
		"a way out":          {"0::/../..\n", map[string]string{"memory.max": "5"}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range c.files {
				put(t, filepath.Join(dir, "root", file), text)
			}
			put(t, filepath.Join(dir, "list"), c.list)
			if got := groupLimit(filepath.Join(dir, "list"), filepath.Join(dir, "root")); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
	if got := groupLimit(filepath.Join(t.TempDir(), "none"), "/"); got != math.MaxInt64 {
		t.Errorf("without a list of groups: %d", got)
	}
}

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
