package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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

// terminal opens a pseudo-terminal: what a user has, and what a program has.
func terminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	t.Cleanup(func() { user.Close() })
	fd := int(user.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skip("no pseudo-terminals here: ", err)
	}
	t.Cleanup(func() { program.Close() })
	return user, program
}

// echoes reports whether a terminal shows what is typed.
func echoes(t *testing.T, f *os.File) bool {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0
}

// TestInterruptAtPasswordPrompt gives up when asked for the password.
func TestInterruptAtPasswordPrompt(t *testing.T) {
	user, program := terminal(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stderr lockedBuffer
	a := &app{stdin: program, stdout: &lockedBuffer{}, stderr: &stderr, env: func(string) string { return "" }}
	done := make(chan int)
	go func() { done <- a.run(ctx, []string{"ls", "lwio://bob@127.0.0.1:1/data"}) }()
	for echoes(t, program) {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if code := <-done; code != exitFailure || !strings.Contains(stderr.String(), "Password for") {
		t.Errorf("exit status %d, %q", code, stderr.String())
	}
	if !echoes(t, program) {
		t.Error("the terminal does not show what is typed any more")
	}
	if _, err := user.WriteString("\n"); err != nil { // for the goroutine that still reads
		t.Fatal(err)
	}
}

// TestPasswordPrompt types the password.
func TestPasswordPrompt(t *testing.T) {
	s := startServer(t, t.TempDir())
	name, rest, _ := strings.Cut(strings.TrimPrefix(s.url, "lwio://"), ":")
	password, host, _ := strings.Cut(rest, "@")
	user, program := terminal(t)
	if _, err := user.WriteString(password + "\n"); err != nil {
		t.Fatal(err)
	}
	var out, err lockedBuffer
	a := &app{stdin: program, stdout: &out, stderr: &err, env: func(string) string { return "" }}
	if code := a.run(t.Context(), []string{"stat", "lwio://" + name + "@" + host}); code != exitOK {
		t.Errorf("exit status %d, %q", code, err.String())
	}
	if strings.Contains(out.String()+err.String(), password) {
		t.Error("the password is shown")
	}
}
