package sockets

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// keeps: the system passes sockets on.
const keeps = true

// secretSize bounds a secret, in bytes.
const secretSize = 4096

// Secret returns the secret that an earlier process has left, or else the one that generate makes, which it
// keeps in memory of its own for the next process.
func (s *Set) Secret(purpose string, generate func() string) (string, error) {
	name := Name(purpose, "")
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.held {
		if h.Name == name {
			h.used = true
			b, err := io.ReadAll(io.NewSectionReader(h.File, 0, secretSize))
			return string(b), err
		}
	}
	secret := generate()
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return "", fmt.Errorf("memory for a secret: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.WriteString(secret)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("memory for a secret: %w", err), f.Close())
	}
	s.held = append(s.held, &Held{Name: name, File: f, made: true, used: true})
	return secret, nil
}

// listenAgain makes this process the one that peers of a Unix socket see as its owner.
func listenAgain(l *net.UnixListener) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	if e := raw.Control(func(fd uintptr) { err = unix.Listen(int(fd), unix.SOMAXCONN) }); e != nil {
		return e
	}
	return os.NewSyscallError("listen", err)
}
