package resident

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// In a process that may lock no more than three chunks the cache makes do with two, says so
// once, and goes on with what it has.
func TestLimitOfTheSystem(t *testing.T) {
	const child = "RESIDENT_LIMIT"
	if os.Getenv(child) != "" {
		limited(t)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestLimitOfTheSystem$", "-test.v")
	cmd.Env = append(os.Environ(), child+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	} else if bytes.Contains(out, []byte("SKIP")) {
		t.Skipf("%s", out)
	}
}

// limited is the child process.
func limited(t *testing.T) {
	const most = 3*ChunkSize - page
	f := patternFile(t, diskDir(t), 4*ChunkSize)
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: most, Max: most}); err != nil {
		t.Skip("no limit can be set: ", err)
	}
	if os.Geteuid() == 0 { // whom no limit holds for
		const nobody = 65534
		if err := syscall.Setreuid(-1, nobody); err != nil {
			t.Skip(err)
		}
		defer syscall.Setreuid(-1, 0)
	}
	if mayLockAll() {
		t.Skip("no limit holds for this process")
	}
	if got := DefaultBudget(); got != most {
		t.Errorf("the default is %d bytes, of %d", got, most)
	}
	var log bytes.Buffer
	c := newCache(t, Config{Budget: 1 << 30, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	v := view(t, c, f)
	if !promoteNow(t, v, 0) || !promoteNow(t, v, ChunkSize) || promoteNow(t, v, 2*ChunkSize) || promoteNow(t, v, 3*ChunkSize) {
		t.Error("two chunks are not kept, or more than that")
	}
	if s := c.Stats(); s.Bytes != 2*ChunkSize || s.Budget != 2*ChunkSize || s.Refused != 1 || !c.full.Load() {
		t.Errorf("%+v, full: %v", s, c.full.Load())
	}
	if n := strings.Count(log.String(), "RLIMIT_MEMLOCK"); n != 1 {
		t.Errorf("logged %d times: %s", n, &log)
	}
	if v.Bytes(0, 1) == nil || v.Bytes(2*ChunkSize, 1) != nil {
		t.Error("what is kept is not there, or what is not is")
	}
	for range 2 {
		c.sweep()
		v.Bytes(0, 1)
	}
	if !promoteNow(t, v, 2*ChunkSize) || v.Bytes(ChunkSize, 1) != nil {
		t.Error("what is not used does not make room")
	}
}
