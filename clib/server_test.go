package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// waitLimit bounds the waits of tests for other processes.
const waitLimit = 60 * time.Second

// server is a process of "lwio serve" with one share.
type server struct {
	t       *testing.T
	command string
	args    []string
	url     string
	process *exec.Cmd
}

// serve starts a server for a directory. It keeps open files over restarts.
func serve(t *testing.T, dir string) *server {
	t.Helper()
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, command: built.command}
	s.args = []string{"serve", "--user", "u", "--password-file", password, "--state", filepath.Join(t.TempDir(), "state"), "share=" + dir, "--listen"}
	s.start("127.0.0.1:0")
	t.Cleanup(s.kill)
	return s
}

// start starts the process and waits for its URL.
func (s *server) start(listen string) {
	s.t.Helper()
	cmd := exec.Command(s.command, append(s.args, listen)...)
	cmd.Stderr = s.t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.process = cmd
	late := time.AfterFunc(waitLimit, func() { cmd.Process.Kill() })
	defer late.Stop()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.kill()
		s.t.Fatalf("the server did not start: %v", err)
	}
	s.url = strings.TrimSpace(line)
	if _, host, ok := strings.Cut(s.url, "@"); ok {
		s.url = "lwio://u:secret@" + host
	} else {
		s.url = strings.Replace(s.url, "lwio://", "lwio://u:secret@", 1)
	}
}

// address returns host and port of the server.
func (s *server) address() string {
	_, rest, _ := strings.Cut(s.url, "@")
	address, _, _ := strings.Cut(rest, "/")
	return address
}

// kill kills the process. A second kill does nothing.
func (s *server) kill() {
	if s.process == nil {
		return
	}
	s.process.Process.Kill()
	s.process.Wait()
	s.process = nil
}
