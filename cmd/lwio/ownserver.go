package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// stopTime bounds the stop of a server that a command started, the draining included.
const stopTime = drainTime + 5*time.Second

// ownServer is a server that a command starts for itself, in a process of its own.
type ownServer struct {
	cmd *exec.Cmd
	url string
	out io.ReadCloser
	// patience bounds the time to stop.
	patience time.Duration
}

// startOwnServer runs this program as a server, with flags, and waits for its URL.
func startOwnServer(ctx context.Context, stderr io.Writer, dir string, flags ...string) (*ownServer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	args := append([]string{"serve", "--listen", "127.0.0.1:0"}, flags...)
	cmd := exec.CommandContext(ctx, self, append(args, "data="+dir)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopTime
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	s := &ownServer{cmd: cmd, out: out, patience: stopTime}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the server did not start: %w", err), s.stop())
	}
	s.url = strings.TrimSpace(line)
	return s, nil
}

func (s *ownServer) pid() int { return s.cmd.Process.Pid }

// stop ends the server and waits for it. A server that was interrupted before, such as by a
// terminal, ends at once. A server that does not stop in time is killed.
func (s *ownServer) stop() error {
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		_ = s.cmd.Process.Kill()
	}
	var killed atomic.Bool
	late := time.AfterFunc(s.patience, func() {
		killed.Store(true) // before Wait sees its end
		_ = s.cmd.Process.Kill()
	})
	defer late.Stop()
	_, _ = io.Copy(io.Discard, s.out)
	err := s.cmd.Wait()
	state := s.cmd.ProcessState
	switch status, ok := state.Sys().(syscall.WaitStatus); {
	case ok && status.Signal() == syscall.SIGINT, state.Success():
		return nil
	case killed.Load():
		return fmt.Errorf("the server did not stop within %v and was killed", s.patience)
	}
	return fmt.Errorf("the server ended badly: %w", err)
}
