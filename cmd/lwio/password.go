package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"lwio/server"
)

// maxPasswordFile bounds a file of passwords, in bytes.
const maxPasswordFile = 1 << 20

// readPassword returns the first line of a file.
func readPassword(name string) (string, error) {
	lines, err := readLines(name)
	if err != nil {
		return "", err
	}
	if lines[0] == "" {
		return "", fmt.Errorf("read password file %s: its first line is empty", name)
	}
	return lines[0], nil
}

// readLines returns the lines of a file of passwords, without their ends. There is
// at least one.
func readLines(name string) ([]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read password file: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPasswordFile+1))
	if err != nil {
		return nil, fmt.Errorf("read password file: %w", err)
	}
	if len(b) > maxPasswordFile {
		return nil, fmt.Errorf("read password file %s: longer than %d bytes", name, maxPasswordFile)
	}
	return strings.Split(strings.ReplaceAll(string(b), "\r\n", "\n"), "\n"), nil
}

// readCredentials reads the users of a server. With a user, the file's first line
// is that user's password; without one, each line is USER:PASSWORD.
func readCredentials(name, user string) (server.Users, error) {
	if user != "" {
		p, err := readPassword(name)
		return server.Users{user: p}, err
	}
	lines, err := readLines(name)
	if err != nil {
		return nil, err
	}
	users := server.Users{}
	for i, line := range lines {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		u, p, ok := strings.Cut(line, ":")
		if !ok || u == "" {
			return nil, fmt.Errorf("read password file %s: line %d is not USER:PASSWORD", name, i+1)
		}
		users[u] = p
	}
	if len(users) == 0 {
		return nil, fmt.Errorf("read password file %s: there is no user in it", name)
	}
	return users, nil
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
