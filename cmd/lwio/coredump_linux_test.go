package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A crash of the server leaves no core dump, although the system and the runtime would make one: its
// memory has passwords and keys.
func TestCrashLeavesNoCoreDump(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_CORE, &limit); err != nil {
		t.Fatal(err)
	}
	high := syscall.Rlimit{Cur: limit.Max, Max: limit.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &high); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &limit); err != nil {
			t.Error(err)
		}
	}()
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "serve", "--listen", "127.0.0.1:0", dir)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), asCommand+"=1", "GOTRACEBACK=crash")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log lockedBuffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Signal(syscall.SIGABRT); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // the status is below
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGABRT || status.CoreDump() {
		t.Errorf("the process ended with %v", cmd.ProcessState)
	}
	if cores, err := filepath.Glob(filepath.Join(dir, "core*")); err != nil || len(cores) > 0 {
		t.Errorf("files %v, %v", cores, err)
	}
	_, secret, _ := strings.Cut(strings.TrimPrefix(line, "lwio://"), ":")
	secret, _, _ = strings.Cut(secret, "@")
	if secret == "" || strings.Contains(log.String(), secret) {
		t.Errorf("the trace of the crash has the password %q", secret)
	}
}
