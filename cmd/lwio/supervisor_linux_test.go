package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds each wait for a process.
const patience = time.Minute

// supervisor plays a supervisor such as systemd: it takes notifications and descriptors, starts a service with
// the descriptors that it has kept, and is the parent of orphaned processes.
type supervisor struct {
	t       *testing.T
	dir     string // of the share "data", and of the state
	program string
	args    []string
	listen  *net.UnixConn
	notes   chan note

	mu    sync.Mutex
	store map[string]*os.File // kept descriptors
	pid   int                 // the main process
	lines chan string         // standard output of all processes
	errs  *lockedBuffer       // standard error
}

// note is one notification.
type note map[string]string

// newSupervisor makes a supervisor of 'lwio serve' with flags.
func newSupervisor(t *testing.T, flags ...string) *supervisor {
	t.Helper()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
	s := &supervisor{
		t: t, dir: t.TempDir(), program: os.Args[0], notes: make(chan note, 100), store: make(map[string]*os.File),
		lines: make(chan string, 100), errs: new(lockedBuffer),
	}
	if err := os.Mkdir(filepath.Join(s.dir, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.args = append([]string{"serve", "-v", "--state", filepath.Join(s.dir, "state")}, flags...)
	s.args = append(s.args, "data="+filepath.Join(s.dir, "data"))
	var err error
	s.listen, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(s.dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(s.read)
	t.Cleanup(func() {
		s.listen.Close()
		reading.Wait()
		for _, f := range s.store {
			f.Close()
		}
		if t.Failed() {
			t.Logf("standard error of the servers:\n%s", s.errs.String())
		}
	})
	return s
}

// read takes notifications until the socket is closed.
func (s *supervisor) read() {
	text, rights := make([]byte, 4096), make([]byte, unix.CmsgSpace(4*8))
	for {
		n, oobn, _, _, err := s.listen.ReadMsgUnix(text, rights)
		if err != nil {
			return
		}
		files, err := descriptors(rights[:oobn])
		if err != nil {
			s.t.Error(err)
		}
		got := make(note)
		for line := range strings.SplitSeq(string(text[:n]), "\n") {
			name, value, _ := strings.Cut(line, "=")
			got[name] = value
		}
		for _, f := range files {
			if got["FDSTORE"] == "1" {
				s.keep(got["FDNAME"], f)
			} else {
				f.Close() // of a barrier
			}
		}
		if got["FDSTOREREMOVE"] == "1" {
			s.drop(got["FDNAME"])
		}
		if got["FDSTORE"] == "" && got["BARRIER"] == "" {
			s.notes <- got
		}
	}
}

func (s *supervisor) keep(name string, f *os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store[name] != nil {
		s.t.Errorf("%s is stored twice", name)
		s.store[name].Close()
	}
	s.store[name] = f
}

func (s *supervisor) drop(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.store[name]; f != nil {
		f.Close()
		delete(s.store, name)
	}
}

// names returns the names of the kept descriptors.
func (s *supervisor) names() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.store {
		all = append(all, name)
	}
	return all
}

// await waits for a notification that has an assignment.
func (s *supervisor) await(name, value string) note {
	s.t.Helper()
	for late := time.After(patience); ; {
		select {
		case n := <-s.notes:
			if n[name] == value {
				return n
			}
		case <-late:
			s.t.Fatalf("no notification %s=%s\n%s", name, value, s.errs.String())
		}
	}
}

// start starts a process with the kept descriptors, and waits until it is ready.
func (s *supervisor) start() {
	s.t.Helper()
	s.launch()
	s.await("READY", "1")
}

// launch starts a process with the kept descriptors.
func (s *supervisor) launch() {
	s.t.Helper()
	// The shell knows the process id of the program.
	cmd := exec.Command("/bin/sh", append([]string{"-c", `LISTEN_PID=$$ exec "$0" "$@"`, s.program}, s.args...)...)
	var names []string
	s.mu.Lock()
	for name, f := range s.store {
		names, cmd.ExtraFiles = append(names, name), append(cmd.ExtraFiles, f)
	}
	s.mu.Unlock()
	cmd.Env = append(os.Environ(), asCommand+"=1", "NOTIFY_SOCKET="+s.listen.LocalAddr().String(),
		"LISTEN_FDS="+strconv.Itoa(len(names)), "LISTEN_FDNAMES="+strings.Join(names, ":"))
	r, w, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Stdout = w
	e, we, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Stderr = we
	if err := errors.Join(cmd.Start(), w.Close(), we.Close()); err != nil {
		s.t.Fatal(err)
	}
	s.pid = cmd.Process.Pid
	var copies sync.WaitGroup
	copies.Go(func() {
		defer r.Close()
		for lines := bufio.NewScanner(r); lines.Scan(); {
			s.lines <- lines.Text()
		}
	})
	copies.Go(func() {
		defer e.Close()
		for lines := bufio.NewScanner(e); lines.Scan(); {
			fmt.Fprintln(s.errs, lines.Text())
		}
	})
	s.t.Cleanup(func() {
		if s.pid != 0 {
			_ = syscall.Kill(s.pid, syscall.SIGKILL)
			s.reap(s.pid)
			s.pid = 0
		}
		copies.Wait()
	})
}

// signal signals the main process.
func (s *supervisor) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := syscall.Kill(s.pid, sig); err != nil {
		s.t.Fatal(err)
	}
}

// reap waits for the end of a process.
func (s *supervisor) reap(pid int) syscall.WaitStatus {
	s.t.Helper()
	var status syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(pid, &status, 0, nil); !errors.Is(err, syscall.EINTR) {
			if err != nil {
				s.t.Errorf("wait for process %d: %v", pid, err)
			}
			return status
		}
	}
}

// ended waits for the end of the main process, which is an orderly one.
func (s *supervisor) ended() {
	s.t.Helper()
	if status := s.reap(s.pid); status.ExitStatus() != exitOK {
		s.t.Errorf("exit status %d, %v", status.ExitStatus(), status)
	}
	s.pid = 0
}

// handOver has the main process hand over to a new one.
func (s *supervisor) handOver() {
	s.t.Helper()
	s.signal(syscall.SIGUSR2)
	s.await("RELOADING", "1")
	n := s.await("READY", "1")
	next, err := strconv.Atoi(n["MAINPID"])
	if err != nil {
		s.t.Fatalf("no new main process: %v\n%s", n, s.errs.String())
	}
	s.ended()
	s.pid = next
}

// restart ends the main process, and starts another one.
func (s *supervisor) restart() {
	s.t.Helper()
	s.stop()
	s.start()
}

// stop ends the main process.
func (s *supervisor) stop() {
	s.t.Helper()
	s.signal(syscall.SIGTERM)
	s.await("STOPPING", "1")
	s.ended()
}

// line returns the next line of standard output.
func (s *supervisor) line() string {
	s.t.Helper()
	select {
	case line := <-s.lines:
		return line
	case <-time.After(patience):
		s.t.Fatalf("the server printed nothing\n%s", s.errs.String())
		return ""
	}
}
