package main

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"lwio"
)

func TestResidentFlag(t *testing.T) {
	for size, want := range map[string]int64{"": 0, "0": -1, "00": -1, "4096": 4096, "512m": 512 << 20, "2G": 2 << 30} {
		if n, err := residentMemory(size); n != want || err != nil {
			t.Errorf("%q: %d, %v", size, n, err)
		}
	}
	for _, size := range []string{"-1", "much", "0m", "1.5g"} {
		if r := run(t, exitUsage, "serve", "--resident", size, t.TempDir()); !strings.Contains(r.err, "--resident") {
			t.Errorf("%q: %s", size, r.err)
		}
	}
}

// A server locks the hot parts of its files in memory, as far as it is told to, and tells of
// it.
func TestServeResident(t *testing.T) {
	for size, limit := range map[string]string{"64m": "6.7108864e+07", "0": "0"} {
		s := startServer(t, t.TempDir(), "--metrics", "127.0.0.1:0", "--resident", size)
		write(t, make([]byte, 1<<20), s.dir, "f")
		var st unix.Statfs_t
		if err := unix.Statfs(s.dir, &st); err != nil || st.Type != unix.EXT4_SUPER_MAGIC && limit != "0" {
			t.Skipf("files of file system %#x may not be mapped: %v", st.Type, err)
		}
		c, err := lwio.Dial(t.Context(), s.url+"?provider=iwarp", &lwio.Config{RequireRDMA: true})
		if err != nil {
			t.Fatal(err)
		}
		f, err := c.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		has := func(line string) bool { return strings.Contains(scrape(t, s), "\n"+line+"\n") }
		for hot := false; !hot; hot = limit == "0" || has("lwio_resident_promotions_total 1") {
			for range 200 {
				if _, err := f.ReadAt(make([]byte, 4096), 8192); err != nil {
					t.Fatal(err)
				}
			}
			if limit != "0" && !has("lwio_resident_refused_total 0") {
				c.Close()
				t.Skip("this process may lock too little memory")
			}
		}
		if !has("lwio_resident_limit_bytes "+limit) || has("lwio_resident_bytes 0") != (limit == "0") {
			t.Errorf("--resident %s: in\n%s", size, scrape(t, s))
		}
		c.Close()
	}
}
