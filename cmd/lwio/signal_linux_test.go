package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"lwio"
)

// TestSecondSignal interrupts a server that waits for a client to go; the second
// signal does not wait.
func TestSecondSignal(t *testing.T) {
	cmd := exec.Command(os.Args[0], "serve", "--listen", "127.0.0.1:0", "data="+t.TempDir())
	cmd.Env = append(os.Environ(), asCommand+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	c, err := lwio.Dial(t.Context(), strings.TrimSpace(url), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	for {
		// However many it takes: those before the first is handled count as one.
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case err := <-gone:
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
				t.Errorf("the server ended with %v, not by the second signal", err)
			}
			return
		case <-time.After(time.Millisecond):
		}
	}
}
