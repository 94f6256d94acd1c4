package faultconn

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"syscall"
)

// Fate is the end of a request on a Link.
type Fate uint8

// The fates.
const (
	Pass         Fate = iota // the request and its response arrive
	LoseRequest              // the connection breaks before the request arrives
	LoseResponse             // the connection breaks after the server has sent the final response, which does not arrive
)

// Link dials TCP connections of SMB for a test, which cuts them. The messages must be signed and not
// encrypted for Judge. The zero value passes all requests.
type Link struct {
	mu     sync.Mutex // guards the following fields
	conns  map[*linkConn]struct{}
	down   bool
	judge  func(command uint16) Fate
	dials  int
	breaks int
}

// Judge has the first command of each later message judged, one at a time; nil passes all.
func (l *Link) Judge(judge func(command uint16) Fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.judge = judge
}

// Cut breaks all connections.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		l.breakLocked(c)
	}
}

// breakLocked breaks a connection. Precondition: mu is held.
func (l *Link) breakLocked(c *linkConn) {
	if _, ok := l.conns[c]; !ok {
		return
	}
	delete(l.conns, c)
	l.breaks++
	c.Conn.Close()
}

// breakOne breaks a connection.
func (l *Link) breakOne(c *linkConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.breakLocked(c)
}

// Breaks returns the number of connections that were broken so far.
func (l *Link) Breaks() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.breaks
}

// Down breaks all connections, and refuses new ones until Up.
func (l *Link) Down() {
	l.mu.Lock()
	l.down = true
	l.mu.Unlock()
	l.Cut()
}

// Up ends Down.
func (l *Link) Up() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}

// Forget sets the counts of connections and breaks to zero.
func (l *Link) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dials, l.breaks = 0, 0
}

// Dials returns the number of connections so far.
func (l *Link) Dials() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dials
}

// DialContext connects. It fits lwio.Config.DialContext.
func (l *Link) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		nc.Close()
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	c := &linkConn{Conn: nc, l: l, in: bufio.NewReader(nc)}
	if l.conns == nil {
		l.conns = make(map[*linkConn]struct{})
	}
	l.conns[c] = struct{}{}
	l.dials++
	return c, nil
}

// linkConn is a connection of a Link. The client writes one whole message at a time.
type linkConn struct {
	net.Conn
	l  *Link
	in *bufio.Reader

	frame []byte // rest of a message from the server; of the goroutine that reads

	mu   sync.Mutex // guards lost
	lost *uint64    // id of the request whose response is lost; nil if there is none
}

// The offsets in a message behind the header of its frame.
const (
	frameHeader = 4
	statusAt    = frameHeader + 8
	commandAt   = frameHeader + 12
	messageIDAt = frameHeader + 24
	leastFrame  = frameHeader + 64

	pending = 0x103
)

func (c *linkConn) Write(p []byte) (int, error) {
	if len(p) < leastFrame {
		return c.Conn.Write(p)
	}
	fate := Pass
	c.l.mu.Lock()
	if c.l.judge != nil {
		fate = c.l.judge(binary.LittleEndian.Uint16(p[commandAt:]))
	}
	c.l.mu.Unlock()
	switch fate {
	case LoseRequest:
		c.l.breakOne(c)
		return len(p), nil // the system does not know yet either that the bytes do not arrive
	case LoseResponse:
		id := binary.LittleEndian.Uint64(p[messageIDAt:])
		c.mu.Lock()
		c.lost = &id
		c.mu.Unlock()
	case Pass:
	}
	return c.Conn.Write(p)
}

func (c *linkConn) Read(p []byte) (int, error) {
	if len(c.frame) == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.frame)
	c.frame = c.frame[n:]
	return n, nil
}

// next reads the next message from the server. It breaks the connection at a response that is lost.
func (c *linkConn) next() error {
	head, err := c.in.Peek(frameHeader)
	if err != nil {
		return err
	}
	frame := make([]byte, frameHeader+int(binary.BigEndian.Uint32(head)))
	if _, err := io.ReadFull(c.in, frame); err != nil {
		return err
	}
	c.mu.Lock()
	lost := c.lost != nil && len(frame) >= leastFrame && binary.LittleEndian.Uint64(frame[messageIDAt:]) == *c.lost &&
		binary.LittleEndian.Uint32(frame[statusAt:]) != pending
	c.mu.Unlock()
	if lost {
		c.l.breakOne(c)
		return io.EOF
	}
	c.frame = frame
	return nil
}

func (c *linkConn) Close() error {
	c.l.mu.Lock()
	delete(c.l.conns, c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}
