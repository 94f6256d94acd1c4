package main

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"lwio"
	"lwio/internal/smb/smbwire"
)

const (
	// peerWidth bounds the attempts at a time. An attempt beyond it is left out.
	peerWidth = 256
	// maxPeerSockets bounds the connections that unauthenticated peers hold. The oldest makes room.
	maxPeerSockets = 4096
)

// mpaRequest is a request for an iWARP connection: revision 1, CRC, no private data.
var mpaRequest = append([]byte("MPA ID Req Frame"), 0x40, 1, 0, 0)

// garbage belongs to no protocol.
var garbage = bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 16)

// peerKind is a kind of unauthenticated peer. It sends bytes and falls silent. Without bytes it is silent at once.
type peerKind struct {
	rdma     bool // over iWARP; otherwise SMB
	bytes    []byte
	password bool // logs on with a wrong password instead
}

// peerKinds take turns.
var peerKinds = []peerKind{
	{},
	{rdma: true},
	{bytes: garbage},
	{rdma: true, bytes: garbage},
	{bytes: smbNegotiate()},
	{rdma: true, bytes: mpaRequest},
	{password: true},
	{rdma: true, bytes: append(bytes.Clone(mpaRequest), garbage...)},
}

// smbNegotiate is the first message of an SMB client.
func smbNegotiate() []byte {
	header := smbwire.Header{Command: smbwire.CommandNegotiate, Credits: 1}
	request := smbwire.NegotiateRequest{SecurityMode: smbwire.SigningEnabled, Dialects: []uint16{smbwire.Dialect302}}
	b := request.AppendTo(header.AppendTo(make([]byte, smbwire.FrameHeaderSize)))
	smbwire.PutFrameHeader(b, len(b)-smbwire.FrameHeaderSize)
	return b
}

// floodPeers connect to a server without knowing a password, each from an address of its own in 127/8.
type floodPeers struct {
	smb, iwarp, wrong string // addresses, and a URL with a wrong password
	attempts          atomic.Int64
	began             time.Time
	cancel            context.CancelFunc
	wg                sync.WaitGroup

	mu   sync.Mutex
	held []net.Conn // a ring
	next int
}

// gather finds the addresses of a server. A client must be able to log on.
func gather(ctx context.Context, at, name string, guess bool) (*floodPeers, error) {
	c, err := readFrom(ctx, at, name, net.IPv4(127, 0, 0, 1))
	if err != nil {
		return nil, err
	}
	s := &floodPeers{iwarp: c.Transport().Addr, held: make([]net.Conn, maxPeerSockets)}
	if err := c.Close(); err != nil {
		return nil, err
	}
	u, err := url.Parse(at)
	if err != nil {
		return nil, err
	}
	s.smb = u.Host
	s.wrong, err = wrongPassword(at, guess)
	return s, err
}

// start begins rate attempts in a second, until ctx ends or stop. The caller calls stop.
func (s *floodPeers) start(ctx context.Context, rate int) {
	ctx, s.cancel = context.WithCancel(ctx)
	s.began = time.Now()
	s.wg.Go(func() {
		const pulse = 5 * time.Millisecond
		t := time.NewTicker(pulse)
		defer t.Stop()
		room := make(chan struct{}, peerWidth)
		for i := 0; ; {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			for due := int(time.Since(s.began).Seconds() * float64(rate)); i < due; i++ {
				select {
				case room <- struct{}{}:
					s.wg.Go(func() {
						s.attempt(ctx, i)
						<-room
					})
				default: // all are busy
				}
			}
		}
	})
}

// stop ends the attempts and closes all connections.
func (s *floodPeers) stop() {
	s.cancel()
	s.wg.Wait()
	for _, nc := range s.held {
		if nc != nil {
			nc.Close()
		}
	}
}

// rate is the number of attempts in a second that the server accepted or answered.
func (s *floodPeers) rate() float64 {
	return float64(s.attempts.Load()) / time.Since(s.began).Seconds()
}

// attempt is the attempt of peer i.
func (s *floodPeers) attempt(ctx context.Context, i int) {
	kind, from := peerKinds[i%len(peerKinds)], net.IPv4(127, 2+byte(i>>16)%250, byte(i>>8), byte(i))
	if kind.password {
		s.logOn(ctx, from)
		return
	}
	addr := s.smb
	if kind.rdma {
		addr = s.iwarp
	}
	nc, err := dialFrom(ctx, from, addr)
	if err != nil {
		return
	}
	s.attempts.Add(1)
	_, _ = nc.Write(kind.bytes) // the server may have closed the connection
	s.hold(nc)
}

// logOn logs on with a wrong password.
func (s *floodPeers) logOn(ctx context.Context, from net.IP) {
	ctx, cancel := context.WithTimeout(ctx, clientPatience)
	defer cancel()
	c, err := lwio.Dial(ctx, s.wrong, &lwio.Config{
		SMBOnly: true, ReconnectTimeout: -1,
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			nc, err := dialFrom(ctx, from, addr)
			if err == nil {
				s.attempts.Add(1)
			}
			return nc, err
		},
	})
	if err == nil {
		c.Close()
	}
}

// hold keeps a connection, and closes the oldest one.
func (s *floodPeers) hold(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.held[s.next]; old != nil {
		old.Close()
	}
	s.held[s.next] = nc
	s.next = (s.next + 1) % len(s.held)
}
