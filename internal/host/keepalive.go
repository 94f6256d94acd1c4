package host

import (
	"net"
	"syscall"
	"time"
)

// keepAliveConn is a connection of TCP, such as *net.TCPConn.
type keepAliveConn interface {
	SetKeepAliveConfig(c net.KeepAliveConfig) error
	SyscallConn() (syscall.RawConn, error)
}

// KeepAlive makes the system end a connection of TCP whose peer does not respond for d: to probes while
// it is idle, or to data, where the system can do that. A peer that takes no data for d counts too. d is
// at least a second, and for probes at least four. KeepAlive does nothing for another kind of connection.
func KeepAlive(nc net.Conn, d time.Duration) {
	c, ok := nc.(keepAliveConn)
	if !ok {
		return
	}
	const probes = 3
	interval := max((d / (probes + 1)).Truncate(time.Second), time.Second) // package net rounds up
	idle := max((d - probes*interval).Truncate(time.Second), time.Second)
	_ = c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: idle, Interval: interval, Count: probes})
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { limitUnacknowledged(fd, d) })
	}
}
