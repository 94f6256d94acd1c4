package main

import (
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A second signal ends a command that cannot stop because its output is not read.
func TestSecondSignalEndsBlockedCommand(t *testing.T) {
	// A background process of a script ignores interrupts, and its children inherit that
	// unless it handles them.
	own := make(chan os.Signal, 1)
	signal.Notify(own, os.Interrupt)
	defer signal.Stop(own)
	s := startServer(t, t.TempDir())
	write(t, randomBytes(2*chunkSize), filepath.Join(s.dir, "f"))
	cmd := exec.Command(os.Args[0], "cat", s.url+"/f")
	cmd.Env = append(os.Environ(), asCommand+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The first byte shows that it is writing; the pipe has no room for a chunk.
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	gone := make(chan *os.ProcessState, 1)
	go func() {
		// Not cmd.Wait, which would close the pipe.
		state, _ := cmd.Process.Wait()
		gone <- state
	}()
	limit := time.After(time.Minute)
	for {
		// It may take several signals: all signals before the first is handled count as
		// one.
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case state := <-gone:
			if status := state.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGINT {
				t.Errorf("the command ended with %v, not by the second signal", state)
			}
			if err := out.Close(); err != nil {
				t.Error(err)
			}
			return
		case <-limit:
			_ = cmd.Process.Kill()
			<-gone
			t.Fatal("the command does not end")
		case <-time.After(time.Millisecond):
		}
	}
}
