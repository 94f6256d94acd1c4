package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lwio/internal/test/skip"
)

// terminal opens a pseudo-terminal: the side of a user, and the side of a program.
func terminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		skip.Test(t, "no pseudo-terminals here", err)
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
		skip.Test(t, "no pseudo-terminals here", err)
	}
	t.Cleanup(func() { program.Close() })
	return user, program
}

// echoes reports whether a terminal shows its input.
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
		t.Error("the terminal does not show its input any more")
	}
	if _, err := user.WriteString("\n"); err != nil { // for the goroutine that still reads
		t.Fatal(err)
	}
}

// TestPasswordPromptTakesThePassword types the password.
func TestPasswordPromptTakesThePassword(t *testing.T) {
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

// screen reads the output of a terminal up to a bell, and returns the text on the screen.
// It closes drawn when the first percentage appears.
func screen(t *testing.T, user *os.File, drawn chan struct{}) string {
	t.Helper()
	first := sync.OnceFunc(func() { close(drawn) })
	in := bufio.NewReader(user)
	lines, at := []string{""}, 0
	for {
		r, _, err := in.ReadRune()
		switch {
		case err != nil:
			t.Fatal(err)
		case r == '\a':
			return strings.Join(lines, "\n")
		case r == '\n':
			if at++; at == len(lines) {
				lines = append(lines, "")
			}
			lines[at] = ""
		case r == '\x1b':
			var n int
			if _, err := fmt.Fscanf(in, "[%d", &n); err != nil {
				n = 1
			}
			switch c, _, _ := in.ReadRune(); c {
			case 'A':
				at = max(0, at-n)
			case 'J':
				lines = lines[:at+1]
				lines[at] = ""
			}
		case r != '\r':
			lines[at] += string(r)
			if r == '%' {
				first()
			}
		}
	}
}

// watched opens a terminal of 100 columns for a program; shown returns the text
// on its screen once the program has ended, and drawn is closed when it has
// shown a percentage.
func watched(t *testing.T) (program *os.File, drawn chan struct{}, shown func() string) {
	t.Helper()
	user, program := terminal(t)
	if err := unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 25, Col: 100}); err != nil {
		t.Fatal(err)
	}
	text := make(chan string, 1)
	drawn = make(chan struct{})
	go func() { text <- screen(t, user, drawn) }()
	return program, drawn, func() string {
		if _, err := program.WriteString("\a"); err != nil {
			t.Fatal(err)
		}
		return <-text
	}
}

// TestMessagesBesideTheBar writes a message while a bar is shown.
func TestMessagesBesideTheBar(t *testing.T) {
	program, drawn, shown := watched(t)
	bar := newProgress(program)
	bar.expect(100)
	bar.add(10)
	<-drawn
	fmt.Fprintln(bar, "a message")
	bar.add(90)
	bar.finish(true)
	fmt.Fprintln(bar, "another")
	if text := shown(); !strings.Contains(text, "a message\n") || !strings.Contains(text, "100 %") || !strings.Contains(text, "another\n") {
		t.Errorf("on the terminal:\n%s", text)
	}
}

// cp draws a bar, with its messages above.
func TestProgressBarWithMessages(t *testing.T) {
	s := startServer(t, t.TempDir())
	src := t.TempDir()
	for i := range 30 {
		write(t, randomBytes(100_000), src, fmt.Sprint("file", i))
	}
	if err := os.Symlink("file1", filepath.Join(src, "file0link")); err != nil {
		t.Fatal(err)
	}
	program, _, shown := watched(t)
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: program, env: func(string) string { return "" }}
	code, text := a.run(t.Context(), []string{"cp", "-r", src, s.url + "/copy"}), shown()
	if code != exitOK || !strings.Contains(text, "file0link: skipped") || !strings.Contains(text, "100 %") {
		t.Errorf("exit status %d, on the terminal:\n%s", code, text)
	}
}

// TestProgressOfAFailure interrupts a copy: the bar does not show a complete copy.
func TestProgressOfAFailure(t *testing.T) {
	dst := t.TempDir()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	program, _, shown := watched(t)
	j := &copyJob{bar: newProgress(program)}
	src := &stoppingSource{memSource{randomBytes(9 * chunkSize), 9 * chunkSize, -1}, func() { cancel(errors.New("enough")) }}
	j.bar.expect(src.Size())
	out, err := localTree{}.Create(ctx, filepath.Join(dst, "copy"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = transfer(ctx, src, out, transferOptions{depth: 1, progress: j.bar.add})
	j.bar.finish(err == nil)
	if e := out.Abort(err); err == nil || e != nil {
		t.Errorf("transfer: %v, abort: %v", err, e)
	}
	if text := shown(); !strings.Contains(text, "10.0 MiB") || strings.Contains(text, "100 %") {
		t.Errorf("on the terminal:\n%s", text)
	}
}

// stoppingSource stops the copy at its fifth chunk.
type stoppingSource struct {
	memSource
	stop func()
}

func (s *stoppingSource) ReadChunk(ctx context.Context, p []byte, off int64) (int, error) {
	if off == 4*chunkSize {
		s.stop()
	}
	return s.memSource.ReadChunk(ctx, p, off)
}
