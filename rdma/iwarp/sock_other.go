//go:build !linux

package iwarp

import (
	"net"
	"syscall"
)

// vectors is the argument of the system call that writes a batch: none on this system.
type vectors struct{}

func (*vectors) reset() {}

// adopt returns no RawConn: this system uses sockets only by blocking calls.
func adopt(nc net.Conn) (net.Conn, syscall.RawConn) { return nc, nil }

// segmentSize returns 0: the size of a TCP segment is unknown.
func segmentSize(syscall.RawConn) int { return 0 }

// writeSocket and readSocket are never called without a RawConn.
func (*batch) writeSocket(int) (int, error) { return 0, errAgain }

func readSocket(int, []byte, []byte) (int, bool, error) { return 0, false, nil }
