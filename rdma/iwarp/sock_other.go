//go:build !linux

package iwarp

import (
	"net"
	"syscall"
)

// vectors is what a system call takes of a batch: nothing here.
type vectors struct{}

func (*vectors) reset() {}

// adopt says that sockets are used by blocking calls only.
func adopt(nc net.Conn) (net.Conn, syscall.RawConn) { return nc, nil }

// segmentSize says that the size of a TCP segment is not known.
func segmentSize(syscall.RawConn) int { return 0 }

// writeSocket and readSocket are never called without a raw connection.
func (*batch) writeSocket(int) (int, error) { return 0, errAgain }

func readSocket(int, []byte, []byte) (int, bool, error) { return 0, false, nil }
