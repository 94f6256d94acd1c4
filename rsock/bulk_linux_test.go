package rsock

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lwio/rdma/shm"
)

// TestBulkMemoryStaysWithinLimit has a thousand connections write large data in both
// directions, which is not read yet. All connections together take no more memory for large
// data than both sides allow. Connections without memory for large data deliver their data
// too.
func TestBulkMemoryStaysWithinLimit(t *testing.T) {
	const limit = 24 << 20 // of each side: for 16 connections
	n := connections(t, 1000)
	cfg := with(shm.New(nil))
	cfg.MaxBulkMemory = limit
	l := listenOn(t, &ListenConfig{Config: cfg}, "127.0.0.1:0")
	d := &Dialer{Config: with(cfg.Providers[0])}
	d.Config.MaxBulkMemory = limit
	var all [][2]*Conn
	for range n {
		c, a := pairOf(t, d, l)
		all = append(all, [2]*Conn{c, a})
	}
	data := bytes.Repeat([]byte("0123456789abcdef"), 100<<10/16)
	before := shared(t)
	var writing sync.WaitGroup
	for _, ends := range all {
		for _, c := range ends {
			writing.Go(func() {
				if _, err := c.Write(data); err != nil {
					t.Error(err)
				}
			})
		}
	}
	for _, ends := range all {
		for _, c := range ends { // until it is written, or no credit is left
			for st := c.Stats(); st.BytesWritten == 0 && st.SendStalls == 0; st = c.Stats() {
				time.Sleep(time.Millisecond)
			}
		}
	}
	took := shared(t) - before
	t.Logf("%d connections with %d KiB in flight in each direction take %d MiB for it", n, len(data)>>10, took>>20)
	if took <= 0 || took > 2*limit {
		t.Errorf("%d connections take %d bytes, both sides allow %d", n, took, 2*limit)
	}
	var reading sync.WaitGroup
	for _, ends := range all {
		for _, c := range ends {
			reading.Go(func() {
				got := make([]byte, len(data))
				if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, data) {
					t.Errorf("the read data differs from the written data: %v", err)
				}
			})
		}
	}
	reading.Wait()
	writing.Wait()
	byRDMA := 0
	for _, ends := range all {
		if ends[0].Stats().RDMAWritten > 0 {
			byRDMA++
		}
	}
	if byRDMA == 0 || n > 100 && byRDMA == n {
		t.Errorf("%d of %d connections had memory for large data", byRDMA, n)
	}
	for _, ends := range all {
		ends[0].Close()
		ends[1].Close()
	}
	if err := errors.Join(d.Drain(t.Context()), l.Drain(t.Context())); err != nil {
		t.Error(err)
	}
	// All memory is free again: as many connections as fit into the limit can use it.
	for range limit / (3 << 19) {
		c, a := pairOf(t, d, l)
		for _, end := range []*Conn{c, a} {
			if _, err := end.Write(data); err != nil {
				t.Fatal(err)
			}
			if end.Stats().RDMAWritten == 0 {
				t.Fatal("memory for large data is missing after all connections were closed")
			}
		}
	}
}

// connections returns how many of the wanted connections a test can have.
func connections(t *testing.T, want int) int {
	t.Helper()
	if testing.Short() || raceEnabled {
		want = min(want, 100)
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	const each = 16 // descriptors of both ends, with a margin
	return min(want, int(min(files.Cur, 1<<20)/each))
}

// shared returns the memory of shm's Alloc in the process, in bytes.
func shared(t *testing.T) int64 {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	sizes := make(map[string]int64) // by inode, as both ends map it
	for line := range strings.Lines(string(maps)) {
		f := strings.Fields(line)
		if len(f) < 6 || !strings.Contains(f[5], "shm-memory") {
			continue
		}
		from, to, _ := strings.Cut(f[0], "-")
		a, errA := strconv.ParseInt(from, 16, 64)
		b, errB := strconv.ParseInt(to, 16, 64)
		if errA != nil || errB != nil {
			t.Fatalf("line %q", line)
		}
		sizes[f[4]] = max(sizes[f[4]], b-a)
	}
	var sum int64
	for _, size := range sizes {
		sum += size
	}
	return sum
}
