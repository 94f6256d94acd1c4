package lwio

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// While there is I/O a client's limit of CPULatency is set, and at no other time, by a call
// and by a Batch.
func TestCPULatency(t *testing.T) { onEach(t, testCPULatency) }

func testCPULatency(t *testing.T, on string) {
	const set, lifted = "\x00\x00\x00\x00", "\xff\xff\xff\x7f"
	device := filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(device, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	share := newFakeShare()
	share.put("a", pattern(4096))
	s := newRawServer(t, on, share)
	c := s.connect(Config{CPULatency: time.Nanosecond, cpuDevice: device})
	f, err := c.OpenFile(t.Context(), "a", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := c.NewBatch(1)
	defer b.Close()
	p := make([]byte, 4096)
	reads := []func() error{
		func() error { _, err := f.ReadAt(p, 0); return err },
		func() error {
			if err := b.Read(f, p, 0, 0); err != nil {
				return err
			}
			_, err := b.Wait(t.Context(), 1)
			return err
		},
	}
	// On a machine that stands still for a while it may be lifted between two looks.
	told := func(least int) {
		t.Helper()
		b, err := os.ReadFile(device)
		if n := strings.Count(string(b), set+lifted); err != nil || n < least || n > 0 && least == 0 || len(b) != n*len(set+lifted) {
			t.Fatalf("the device was told %x, %v", b, err)
		}
	}
	until := func(held bool, read func() error) {
		t.Helper()
		for end := time.Now().Add(time.Minute); c.Stats().CPULatencyHeld != held; time.Sleep(time.Millisecond) {
			if err := read(); err != nil || time.Now().After(end) {
				t.Fatalf("held: %t, %v", !held, err)
			}
		}
	}
	told(0)
	for _, read := range reads {
		until(false, func() error { return nil })
		until(true, read)
	}
	if err := c.Close(); err != nil || c.Stats().CPULatencyHeld {
		t.Errorf("closed, held: %t, %v", c.Stats().CPULatencyHeld, err)
	}
	told(2)
}

// A limit that cannot be had is an error of Dial, which says why.
func TestCPULatencyRefused(t *testing.T) {
	device := filepath.Join(t.TempDir(), "none")
	for _, r := range []struct {
		limit  time.Duration
		is     error
		reason string
	}{{time.Microsecond, fs.ErrNotExist, device}, {-1, nil, "negative"}} {
		sess := &fakeSession{share: newFakeShare(), noLWIO: true}
		cfg := (&Config{CPULatency: r.limit, cpuDevice: device}).withDefaults()
		_, err := newClient(t.Context(), sess, noLocalAddr, &testTarget, cfg)
		if err == nil || r.is != nil && !errors.Is(err, r.is) || !strings.Contains(err.Error(), r.reason) {
			t.Errorf("%v: %v", r.limit, err)
		}
	}
}

// A client that cannot be made leaves no limit behind: what it had open is found else.
func TestCPULatencyOfNoClient(t *testing.T) {
	device := filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(device, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	sess := &fakeSession{share: newFakeShare(), noLWIO: true}
	cfg := (&Config{CPULatency: time.Microsecond, cpuDevice: device, RequireRDMA: true}).withDefaults()
	if _, err := newClient(t.Context(), sess, noLocalAddr, &testTarget, cfg); !errors.Is(err, ErrNoRDMA) {
		t.Error(err)
	}
}
