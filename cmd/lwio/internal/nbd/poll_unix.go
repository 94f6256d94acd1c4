//go:build unix

package nbd

import "syscall"

// canPoll reports that pollRead works.
const canPoll = true

// pollRead reads the bytes that a socket has received into p. It returns -1 if there are none.
func pollRead(fd uintptr, p []byte) (int, error) {
	n, err := syscall.Read(int(fd), p)
	if err == syscall.EAGAIN || err == syscall.EINTR {
		return -1, nil
	}
	return n, err
}
