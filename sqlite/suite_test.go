package sqlite

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"lwio/lwiotest"
)

// program runs a program of SQLite, which has no other way to end than exit, and returns its status.
func program(ctx context.Context, main func(m *module, count, arguments int32) int32, args []string) (status int32, err error) {
	done := make(chan struct{})
	status = -1
	go func() {
		defer close(done)
		m, e := createWrapper(ctx)
		if e != nil {
			err = e
			return
		}
		defer func() { err = errors.Join(err, closeWrapper(m)) }()
		status = main(m, int32(len(args)), m.arguments(args))
	}()
	<-done
	return status, err
}

// suite is the environment of the programs of one test.
type suite struct {
	t        *testing.T
	children sync.WaitGroup
	failed   atomic.Pointer[string]
	files    []string // names of file systems, for one child after another
	next     atomic.Uint64
}

func (s *suite) Context() context.Context        { return s.t.Context() }
func (s *suite) Logf(format string, args ...any) { s.t.Logf(format, args...) }

// start makes s the environment of the programs.
func start(t *testing.T, files ...string) *suite {
	s := &suite{t: t, files: files}
	suiteLog, suiteFiles = s, os.DirFS(filepath.Join("testdata", "mptest"))
	suiteSystem = s.system
	suiteExit = func(int32) { runtime.Goexit() } // a child may end early; its parent counts the errors
	t.Cleanup(func() { suiteLog, suiteFiles, suiteSystem, suiteExit = nil, nil, nil, nil })
	return s
}

// system starts a child of mptest, with the next file system.
func (s *suite) system(command string) int32 {
	args := strings.Fields(strings.TrimSuffix(command, "&"))
	for i := range args {
		args[i] = strings.Trim(args[i], `"`)
		if i > 0 && args[i-1] == "--vfs" {
			args[i] = s.files[s.next.Add(1)%uint64(len(s.files))]
		}
	}
	s.children.Go(func() {
		_, err := program(context.Background(), (*module).mptest, args)
		if err != nil {
			text := err.Error()
			s.failed.CompareAndSwap(nil, &text)
		}
	})
	return 0
}

func (m *module) mptest(count, arguments int32) int32 { return m.Xmain_mptest(count, arguments) }
func (m *module) speedtest1(count, arguments int32) int32 {
	return m.Xmain_speedtest1(count, arguments)
}

// The program speedtest1 of SQLite makes the same transactions by each transport, and finds a sound database.
func TestSpeedtestFindsASoundDatabase(t *testing.T) {
	srv := lwiotest.NewServer(t, nil)
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			_, name := client(t, srv, transport, nil)
			start(t)
			args := []string{"speedtest1", "--vfs", name, "--size", "1", "--verify", transport + ".db"}
			if status, err := program(t.Context(), (*module).speedtest1, args); status != 0 || err != nil {
				t.Errorf("status %d, %v", status, err)
			}
			mustQuery(t, open(t, transport+".db", name, modes["DELETE"]), "PRAGMA integrity_check", "ok")
		})
	}
}

// The program mptest of SQLite shares a database between clients of all transports: five tasks write at once, in
// journal modes of their own, and one ends in the middle of a transaction.
func TestMultipleProcesses(t *testing.T) {
	scripts, err := filepath.Glob("testdata/mptest/*.test")
	if err != nil || len(scripts) == 0 {
		t.Fatal(scripts, err)
	}
	srv := lwiotest.NewServer(t, nil)
	var files []string
	for _, transport := range transports {
		_, name := client(t, srv, transport, nil)
		files = append(files, name)
	}
	for _, script := range scripts {
		script = path.Base(script)
		t.Run(script, func(t *testing.T) {
			s := start(t, files...)
			args := []string{"mptest", script + ".db", script, "--vfs", files[0]}
			status, err := program(t.Context(), (*module).mptest, args)
			s.children.Wait()
			if f := s.failed.Load(); status != 0 || err != nil || f != nil {
				t.Errorf("status %d, %v, %v", status, err, f)
			}
		})
	}
}
