//go:build linux

package pmqos

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"lwio/internal/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// fake is a file that keeps all that is written to it, as the device does not.
func fake(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "cpu_dma_latency")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// wrote demands what was written to a fake, in hexadecimal digits; machines that write the
// most significant byte first have each word the other way round.
func wrote(t *testing.T, device string, words ...string) {
	t.Helper()
	b, err := os.ReadFile(device)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := hex.EncodeToString(b), strings.Join(words, ""); got != want {
		t.Errorf("wrote %s, want %s", got, want)
	}
}

// The words of limits, on machines that write the least significant byte first.
const (
	none    = "ffffff7f"
	awake   = "00000000"
	hundred = "64000000"
)

func TestRequest(t *testing.T) {
	for _, c := range []struct {
		limit time.Duration
		word  string
	}{
		{Awake, awake},
		{999 * time.Nanosecond, awake},
		{time.Microsecond, "01000000"},
		{1999 * time.Nanosecond, "01000000"},
		{100 * time.Microsecond, hundred},
		{time.Second, "40420f00"},
		{math.MaxInt64, none},
	} {
		device := fake(t)
		r, err := Hold(device, c.limit)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(r.Lift(), r.Close()); err != nil {
			t.Error(err)
		}
		wrote(t, device, c.word, none)
		if r.Set(c.limit) == nil {
			t.Error("a request that is closed takes a limit")
		}
	}
}

// What cannot be had is said with the device's name, and why.
func TestRefused(t *testing.T) {
	missing, denied := filepath.Join(t.TempDir(), "none"), t.TempDir() // nobody may write to a directory
	for what, f := range map[string]func(device string) error{
		"Hold":      func(d string) error { _, err := Hold(d, Awake); return err },
		"NewKeeper": func(d string) error { _, err := NewKeeper(d, Awake, unexpected(t)); return err },
	} {
		if err := f(missing); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
			t.Errorf("%s without a device: %v", what, err)
		}
		if err := f(denied); err == nil || !strings.Contains(err.Error(), denied) {
			t.Errorf("%s of a device that refuses: %v", what, err)
		}
	}
	if _, err := Hold("/dev/full", Awake); err == nil || !strings.Contains(err.Error(), "/dev/full") {
		t.Errorf("a device that takes nothing: %v", err)
	}
	if k, err := NewKeeper(fake(t), -time.Nanosecond, unexpected(t)); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a limit below 0 gives %v", k)
	}
}

// Who has no right to the device is told that.
func TestNoPermission(t *testing.T) {
	device := fake(t)
	if err := os.Chmod(device, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(filepath.Dir(device)), 0o755); err != nil {
		t.Fatal(err)
	}
	// Root may open it all the same; this thread does so as somebody else.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if os.Geteuid() == 0 {
		const nobody = 65534
		if _, err := unix.SetfsuidRetUid(nobody); err != nil {
			t.Fatal(err)
		}
		defer unix.SetfsuidRetUid(0)
	}
	k, err := NewKeeper(device, Awake, unexpected(t))
	if want := "limit the CPU latency: open " + device + ": permission denied"; !errors.Is(err, fs.ErrPermission) || err.Error() != want {
		t.Errorf("%v, %v, want %s", k, err, want)
	}
}

// A Keeper of no limit does nothing, and needs no device.
func TestNoLimit(t *testing.T) {
	k, err := NewKeeper("none", 0, unexpected(t))
	if k != nil || err != nil {
		t.Fatalf("%v, %v", k, err)
	}
	k.Touch()
	if err := k.Close(); err != nil || k.Held() {
		t.Errorf("held: %t, %v", k.Held(), err)
	}
}

// The limit is set when there is work, and lifted when there is none.
func TestKeeper(t *testing.T) {
	device := fake(t)
	synctest.Test(t, func(t *testing.T) {
		k, err := NewKeeper(device, 100*time.Microsecond, unexpected(t))
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		held := func(want bool) {
			t.Helper()
			synctest.Wait()
			if k.Held() != want {
				t.Fatalf("held: %t", !want)
			}
		}
		time.Sleep(10 * Rest)
		held(false)
		wrote(t, device)
		for range 2 {
			k.Touch()
			held(true)
			for range 20 { // work at least twice in the time of rest
				time.Sleep(Rest / 4)
				k.Touch()
				held(true)
			}
			time.Sleep(Rest / 4)
			held(true)
			time.Sleep(Rest)
			held(false)
		}
		wrote(t, device, hundred, none, hundred, none)
		k.Touch()
		held(true)
		if err := errors.Join(k.Close(), k.Close()); err != nil {
			t.Error(err)
		}
		held(false)
		k.Touch() // comes too late, and does nothing
		held(false)
	})
	wrote(t, device, hundred, none, hundred, none, hundred, none)
}

// However touches and looks fall together, work that goes on has the limit set.
func TestTouchedByMany(t *testing.T) {
	device := fake(t)
	synctest.Test(t, func(t *testing.T) {
		k, err := NewKeeper(device, Awake, unexpected(t))
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		for range 100 {
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					time.Sleep(Rest / 2) // at the very time of a look
					k.Touch()
				})
			}
			all.Wait()
			synctest.Wait()
			if !k.Held() {
				t.Fatal("touched, and not held")
			}
		}
	})
}

// unexpected fails the test if a limit could not be kept.
func unexpected(t *testing.T) func(error) { return func(err error) { t.Error(err) } }

// A device that takes nothing any more ends the keeping, and Close says why.
func TestBroken(t *testing.T) {
	var told error
	k, err := NewKeeper("/dev/full", Awake, func(err error) { told = err })
	if err != nil {
		t.Fatal(err)
	}
	k.Touch()
	k.Touch()
	if err := <-k.done; err == nil || k.Held() || !errors.Is(told, err) {
		t.Fatalf("held: %t, %v, told: %v", k.Held(), err, told)
	} else {
		k.done <- err
	}
	if err := k.Close(); err == nil || !strings.Contains(err.Error(), "/dev/full") {
		t.Errorf("close: %v", err)
	}
}
