package host

import (
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT, in milliseconds.
const tcpUserTimeout = 0x12

// limitUnacknowledged bounds the time that sent data may stay unacknowledged.
func limitUnacknowledged(fd uintptr, d time.Duration) {
	_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(max(d, time.Second).Milliseconds()))
}
