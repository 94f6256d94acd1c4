package rsock

import (
	"bytes"
	"net"

	"golang.org/x/sys/windows"
)

// peekIs waits until a connection has data, and reports whether the data begins with want.
// The data stays in the connection. At the end of the stream and after an error the result
// is false.
func peekIs(c *net.TCPConn, want []byte) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	got := make([]byte, len(want))
	var n uint32
	waited := false
	err = raw.Read(func(fd uintptr) bool {
		if !waited { // the call below would block the thread
			waited = true
			return false
		}
		buf := windows.WSABuf{Len: uint32(len(got)), Buf: &got[0]}
		flags := uint32(windows.MSG_PEEK)
		_ = windows.WSARecv(windows.Handle(fd), &buf, 1, &n, &flags, nil, nil)
		return true
	})
	return err == nil && int(n) == len(want) && bytes.Equal(got, want)
}
