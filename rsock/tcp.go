package rsock

import (
	"errors"
	"fmt"
	"net"
)

// tcpCarrier carries a Conn over TCP.
type tcpCarrier struct{ *net.TCPConn }

// errUrgentOverTCP is the error of urgent data over TCP.
var errUrgentOverTCP = fmt.Errorf("urgent data over TCP, where it can end up in the stream: %w", errors.ErrUnsupported)

func (c tcpCarrier) WriteUrgent([]byte) (int, error) { return 0, c.noUrgent("write") }
func (c tcpCarrier) ReadUrgent([]byte) (int, error)  { return 0, c.noUrgent("read") }
func (c tcpCarrier) Stats() Stats                    { return Stats{} }

func (c tcpCarrier) noUrgent(op string) error {
	return opError(op, TransportTCP, c.LocalAddr(), c.RemoteAddr(), errUrgentOverTCP)
}

// newTCPConn returns a connection over TCP.
func newTCPConn(c *net.TCPConn, skipped []Skipped) *Conn {
	return &Conn{via: tcpCarrier{c}, transport: Transport{Name: TransportTCP, Skipped: skipped}}
}
