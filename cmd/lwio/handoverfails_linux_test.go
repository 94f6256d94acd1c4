package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A server goes on, and says why, if its successor fails: because of a mistake in its configuration, because the
// program cannot be run or ends, or because it cannot read the state. A later successor takes over.
func TestServerGoesOnIfSuccessorFails(t *testing.T) {
	// The program of the server, which is replaced.
	program := filepath.Join(t.TempDir(), "lwio")
	whole, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	install := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(program+".new", content, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(program+".new", program); err != nil {
			t.Fatal(err)
		}
	}
	failing := func(at string) []byte {
		return fmt.Appendf(nil, "#!/bin/sh\n%s='%s' exec '%s' \"$@\"\n", asSuccessor, at, os.Args[0])
	}
	install(whole)
	dir, own := t.TempDir(), t.TempDir()
	config := filepath.Join(own, "config")
	content := fmt.Sprintf("users = %q\nlisten = \"127.0.0.1:0\"\n[[share]]\nname = \"data\"\npath = %q\nwrite = [\"*\"]\n",
		writeSecret(t, "alice:secret\n", own, "users"), dir)
	write(t, []byte(content), config)
	s := newSupervisor(t, "--config", config)
	s.program, s.args = program, s.args[:len(s.args)-1] // without a directory
	s.start()
	url := strings.Replace(s.line(), "lwio://", "lwio://alice:secret@", 1)
	r := startRecorder(t, url, "shm")
	for _, x := range []struct {
		name      string
		program   []byte
		config    string
		log       string
		restarted bool // the server has ended its server before
	}{
		{name: "configuration", program: whole, config: "users = 7\n", log: "the new process has failed"},
		{name: "no program", program: []byte("not a program"), config: content, log: "exec format error"},
		{name: "crash", program: []byte("#!/bin/sh\nexit 1\n"), config: content, log: "start of the new process: exit status 1"},
		{name: "before ready", program: failing("before ready"), config: content, log: errOtherEnded.Error()},
		{name: "crash before it serves", program: failing("crash"), config: content, log: errOtherEnded.Error()},
		{name: "state", program: failing("state"), config: content, log: "the format 7 is unknown"},
	} {
		install(x.program)
		write(t, []byte(x.config), config)
		pid, logged := s.pid, len(s.errs.String())
		s.signal(syscall.SIGUSR2)
		s.await("RELOADING", "1")
		if n := s.await("READY", "1"); n["MAINPID"] != "" {
			t.Fatalf("%s: process %s has taken over", x.name, n["MAINPID"])
		}
		r.goesOn(t)
		if log := s.errs.String()[logged:]; !strings.Contains(log, "level=ERROR msg=\"hand-over") || !strings.Contains(log, x.log) {
			t.Errorf("%s: the log has no %q:\n%s", x.name, x.log, log)
		}
		if s.pid != pid || syscall.Kill(pid, 0) != nil {
			t.Errorf("%s: the server has ended", x.name)
		}
	}
	install(whole)
	write(t, []byte(content), config)
	s.handOver()
	r.goesOn(t)
	r.end(t, dir)
	s.stop()
}

// A program that neither starts a successor nor ends does not keep the server from its own end.
func TestServerEndsWhileLauncherHangs(t *testing.T) {
	program := filepath.Join(t.TempDir(), "lwio")
	whole, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, whole, 0o755); err != nil {
		t.Fatal(err)
	}
	s := newSupervisor(t, "--listen", "127.0.0.1:0")
	s.program = program
	s.start()
	if err := os.WriteFile(program+".new", []byte("#!/bin/sh\nexec sleep 1000\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(program+".new", program); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGUSR2)
	s.await("RELOADING", "1")
	s.stop()
}

// Without a state there is no hand-over: it would end the opens of the clients.
func TestHandOverNeedsState(t *testing.T) {
	s := newSupervisor(t, "--listen", "127.0.0.1:0")
	s.args = append([]string{"serve", "--listen", "127.0.0.1:0"}, s.args[len(s.args)-1])
	s.start()
	s.signal(syscall.SIGUSR2)
	for late := time.Now().Add(patience); !strings.Contains(s.errs.String(), "--state"); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal(s.errs.String())
		}
	}
	s.stop()
}

// SIGHUP is reported to the supervisor as a reload.
func TestReloadIsReported(t *testing.T) {
	users := writeSecret(t, "secret\n", t.TempDir(), "users")
	s := newSupervisor(t, "--listen", "127.0.0.1:0", "--user", "alice", "--password-file", users)
	s.start()
	s.signal(syscall.SIGHUP)
	if n := s.await("RELOADING", "1"); n["MONOTONIC_USEC"] == "" || n["MONOTONIC_USEC"] == "0" {
		t.Errorf("%v", n)
	}
	s.await("READY", "1")
	s.stop()
}

// A socket of the configuration of the supervisor is used, goes on with the next process, and is not given to the
// store, which would pass it twice.
func TestServesOnActivatedSocket(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	s := newSupervisor(t, "--listen", addr, "--provider", "none")
	s.keep("lwio.socket", f)
	s.start() // another socket of this address would fail
	l.Close()
	if line := s.line(); !strings.Contains(line, "@"+addr+"/") {
		t.Errorf("the server prints %q, and the socket has %s", line, addr)
	}
	s.handOver()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if names := s.names(); len(names) != 2 { // with the password
		t.Errorf("kept: %q", names)
	}
	s.stop()
}

// A copy that is verified goes on through hand-overs.
func TestCopyGoesOnThroughHandOvers(t *testing.T) {
	s := newSupervisor(t, "--listen", "127.0.0.1:0")
	s.start()
	url := s.line()
	content := randomBytes(48 << 20)
	src := write(t, content, t.TempDir(), "src")
	var done atomic.Bool
	results := make(chan result, 1)
	go func() {
		r := runCommand(t.Context(), bytes.NewReader(nil), "cp", "--verify", src, url+"/dst")
		done.Store(true)
		results <- r
	}()
	restarts := 0
	for ; !done.Load() && restarts < 10; restarts++ {
		s.handOver()
	}
	if r := <-results; r.code != exitOK {
		t.Errorf("exit status %d\n%s", r.code, r.err)
	}
	wantFile(t, filepath.Join(s.dir, "data", "dst"), content)
	t.Logf("%d hand-overs", restarts)
	s.stop()
}
