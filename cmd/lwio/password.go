package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"golang.org/x/term"

	"lwio/cmd/lwio/internal/secret"
)

// maxPassword bounds a password on the standard input, in bytes.
const maxPassword = 64 << 10

// readPassword returns the first line of a file that no other user may read.
func readPassword(name string) (string, error) {
	lines, err := secret.ReadLines(name)
	if err != nil {
		return "", fmt.Errorf("read password file: %w", err)
	}
	if lines[0] == "" {
		return "", fmt.Errorf("read password file %s: its first line is empty", name)
	}
	return lines[0], nil
}

// askPassword reads a line from a terminal that does not show it. If ctx ends first,
// askPassword restores the terminal; the goroutine that waits for the line ends with the
// process.
func askPassword(ctx context.Context, fd int) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	before, err := term.GetState(fd)
	if err != nil {
		return "", fmt.Errorf("ask for the password: %w", err)
	}
	type answer struct {
		line []byte
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		line, err := term.ReadPassword(fd)
		done <- answer{line, err}
	}()
	select {
	case a := <-done:
		return string(a.line), a.err
	case <-ctx.Done():
		return "", errors.Join(context.Cause(ctx), term.Restore(fd, before))
	}
}

// oneTimePassword returns a random password of more than 100 bits.
func oneTimePassword() string { return rand.Text() }
