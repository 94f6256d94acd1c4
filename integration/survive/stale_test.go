package survive

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lwio"
	"lwio/integration/internal/supervise"
	"lwio/internal/test/faultconn"
)

// TestStaleFileSaysWhy kills the server, and changes the names of open files before the next one starts. The calls of
// each file fail with an error that says which change it was, and write to no other file. If the server is killed again
// before its clients are back, they learn the same.
func TestStaleFileSaysWhy(t *testing.T) {
	const elsewhere, others = "elsewhere", "other"
	cases := map[string]struct {
		change func(name string) error
		says   string
	}{
		"removed": {os.Remove, "it was removed or renamed meanwhile"},
		"renamed": {func(name string) error { return os.Rename(name, filepath.Join(filepath.Dir(name), elsewhere)) }, "it was removed or renamed meanwhile"},
		"replaced": {func(name string) error {
			return errors.Join(os.Remove(name), os.WriteFile(name, []byte(others), 0o600))
		}, "another file has its name now"},
		"a directory": {func(name string) error { return errors.Join(os.Remove(name), os.Mkdir(name, 0o700)) },
			"another file has its name now"},
	}
	for i, transport := range append(transports, transports...) {
		again := i >= len(transports) // the server is killed twice
		t.Run(fmt.Sprintf("%s, again %t", transport, again), func(t *testing.T) {
			dir := t.TempDir()
			s := serve(t, dir, stateFlags(t, true)...)
			open := make(map[string]*visitor)
			for name := range cases {
				open[name] = visit(t, s, transport, name)
			}
			for _, v := range open {
				v.refuse.Store(again)
			}
			if err := s.Kill(); err != nil {
				t.Fatal(err)
			}
			for name, c := range cases {
				if err := c.change(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			err := s.Start()
			if again && err == nil {
				err = errors.Join(s.Kill(), s.Start())
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range open {
				v.refuse.Store(false)
			}
			for name, c := range cases {
				for call, err := range map[string]error{"uses": open[name].uses(9), "sync": open[name].f.Sync(t.Context()), "close": open[name].f.Close()} {
					if !errors.Is(err, lwio.ErrStale) || !strings.Contains(err.Error(), c.says) {
						t.Errorf("%s of a file that is %s: %v", call, name, err)
					}
				}
			}
			for name, want := range map[string]string{elsewhere: "\x01", "replaced": others} {
				if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
					t.Errorf("%s has %q, %v", name, got, err)
				}
			}
		})
	}
}

// TestFileChangedMeanwhileIsStale ends the server in each way, and has another process change open files before the next one starts.
// A file with a lock is stale, and its error says why: the program relies on it that no other changes the file. Other files
// go on, such as a log that programs of the host write to, and files with a lock that only the clients have changed.
func TestFileChangedMeanwhileIsStale(t *testing.T) {
	ends := map[string]func(s *supervise.Server) error{"killed": (*supervise.Server).Kill, "stopped": (*supervise.Server).Stop}
	for _, transport := range transports {
		for how, end := range ends {
			t.Run(transport+", "+how, func(t *testing.T) {
				dir := t.TempDir()
				s := serve(t, dir, stateFlags(t, true)...)
				files := make(map[string]*visitor)
				for _, name := range []string{"shared", "exclusive", "released", "own", "shared, own"} {
					v := visit(t, s, transport, name)
					if name != "shared, own" && name != "shared" {
						if err := v.f.TryLock(t.Context(), lwio.Range{Off: 100, Len: 1}, lwio.LockExclusive); err != nil {
							t.Fatal(err)
						}
					}
					files[name] = v
				}
				if err := files["released"].f.Unlock(t.Context(), lwio.Range{Off: 100, Len: 1}); err != nil {
					t.Fatal(err)
				}
				for name, v := range files {
					if err := v.uses(2); err != nil {
						t.Fatalf("%s: %v", name, err)
					}
				}
				if err := end(s); err != nil {
					t.Fatal(err)
				}
				for passed := time.Now().Add(boundStep); !time.Now().After(passed); {
					time.Sleep(time.Until(passed) + time.Millisecond)
				}
				for _, name := range []string{"shared", "exclusive", "released"} {
					if out, err := exec.Command("sh", "-c", `printf other >> "$1"`, "sh", filepath.Join(dir, name)).CombinedOutput(); err != nil {
						t.Fatalf("%v: %s", err, out)
					}
				}
				if err := s.Start(); err != nil {
					t.Fatal(err)
				}
				for name, v := range files {
					err := v.uses(3)
					if name != "exclusive" {
						if err != nil {
							t.Errorf("%s: %v", name, err)
						}
						continue
					}
					if !errors.Is(err, lwio.ErrStale) || !strings.Contains(err.Error(), "its content was changed meanwhile") {
						t.Errorf("%s: %v", name, err)
					}
					if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != "\x02other" {
						t.Errorf("%s has %q, %v", name, got, err)
					}
				}
			})
		}
	}
}

// boundStep is the time after the death of a server in which changes of files are taken for its own, and some more: the
// file system may take the time of a change from a clock that is some milliseconds behind.
const boundStep = time.Second + 100*time.Millisecond

// TestOwnWritesAreNoChangesByOthers kills the server while clients write to files that they have locked. No file is stale then.
//
// Source: [OP-112]
func TestOwnWritesAreNoChangesByOthers(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, dir, stateFlags(t, true)...)
	var writers []*visitor
	for _, transport := range transports {
		v := visit(t, s, transport, transport)
		if err := v.f.Lock(t.Context(), lwio.Range{Off: 1 << 20, Len: 1}, lwio.LockExclusive); err != nil {
			t.Fatal(err)
		}
		writers = append(writers, v)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	var all sync.WaitGroup
	var written atomic.Int64
	for _, v := range writers {
		all.Go(func() {
			p := make([]byte, 5000)
			for i := 0; ctx.Err() == nil; i++ {
				_, err := v.f.WriteAt(p, int64(i%200)*4096)
				if i%50 == 49 && err == nil {
					err = v.f.Truncate(t.Context(), 100)
				}
				if errors.Is(err, lwio.ErrUncertain) { // over SMB
					err = v.f.Sync(t.Context())
				}
				if err != nil {
					stop(err)
				}
				written.Add(1)
			}
		})
	}
	for range *kills {
		for before := written.Load(); written.Load() < before+30 && ctx.Err() == nil; {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(rand.N(mostDelay))
		if err := errors.Join(s.Kill(), s.Start()); err != nil {
			stop(err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	failed := context.Cause(ctx)
	stop(nil)
	all.Wait()
	if failed != nil {
		t.Fatal(failed)
	}
	t.Logf("%d calls", written.Load())
}

// TestCloseInFlightReportsReboot kills the server while a CLOSE is in flight. The close of a file that was written to
// succeeds after a restart of the server, and fails after a restart of the host, which may have lost the data.
func TestCloseInFlightReportsReboot(t *testing.T) {
	const smbClose = 0x06
	for name, c := range map[string]struct {
		rebooted bool
		flag     int
		want     error
	}{
		"killed":              {false, os.O_RDWR, nil},
		"rebooted":            {true, os.O_RDWR, lwio.ErrStale},
		"rebooted, read-only": {true, os.O_RDONLY, nil},
	} {
		for _, transport := range transports {
			t.Run(name+" "+transport, func(t *testing.T) {
				dir, flags := t.TempDir(), stateFlags(t, true)
				if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
				s, link := serve(t, dir, flags...), new(faultconn.Link)
				cfg := new(wires).config(transport)
				cfg.DialContext = link.DialContext
				client, err := lwio.Dial(t.Context(), s.URL(""), cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				f, err := client.OpenFile(t.Context(), "f", c.flag, 0)
				if err != nil {
					t.Fatal(err)
				}
				if c.flag != os.O_RDONLY {
					if _, err := f.WriteAt([]byte("data"), 0); err != nil {
						t.Fatal(err)
					}
				}
				var sent atomic.Bool
				inFlight := make(chan struct{})
				link.Judge(func(command uint16) faultconn.Fate {
					if command != smbClose || sent.Swap(true) {
						return faultconn.Pass
					}
					close(inFlight)
					return faultconn.LoseRequest
				})
				if err := s.Signal(syscall.SIGSTOP); err != nil { // it takes no other connection
					t.Fatal(err)
				}
				closed := make(chan error, 1)
				go func() { closed <- f.Close() }()
				<-inFlight
				if err := s.Kill(); err != nil {
					t.Fatal(err)
				}
				if c.rebooted {
					reboot(t, flags[1])
				}
				if err := s.Start(); err != nil {
					t.Fatal(err)
				}
				if err := <-closed; !errors.Is(err, c.want) {
					t.Errorf("the close: %v instead of %v", err, c.want)
				}
			})
		}
	}
}

// rebooted changes the state in a directory as if the host had been started again.
func rebooted(state string) error {
	return os.WriteFile(filepath.Join(state, "boot"), []byte("another\n"), 0o600)
}

// reboot is rebooted for a test.
func reboot(t *testing.T, state string) {
	t.Helper()
	if err := rebooted(state); err != nil {
		t.Fatal(err)
	}
}
