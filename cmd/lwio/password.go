package main

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"lwio/server"
)

// maxPasswordFile bounds a file of passwords, in bytes.
const maxPasswordFile = 1 << 20

// readPassword returns the first line of a file.
func readPassword(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("read password file: %w", err)
	}
	defer f.Close()
	s := bufio.NewScanner(io.LimitReader(f, maxPasswordFile))
	if !s.Scan() {
		return "", fmt.Errorf("read password file %s: %w", name, errors.Join(s.Err(), errors.New("it is empty")))
	}
	return strings.TrimRight(s.Text(), "\r"), nil
}

// readCredentials reads who may use a server. With a user, the file's first line
// is that user's password; without one, each line is USER:PASSWORD.
func readCredentials(name, user string) (server.Users, error) {
	if user != "" {
		p, err := readPassword(name)
		return server.Users{user: p}, err
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read password file: %w", err)
	}
	users := server.Users{}
	for i, line := range strings.Split(string(b), "\n") {
		line = strings.TrimRight(line, "\r")
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

// oneTimePassword makes up a password of 100 random bits and more.
func oneTimePassword() string { return rand.Text() }
