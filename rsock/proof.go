package rsock

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"lwio/rdma"
)

// A proof shows a dialer that the owner of the TCP port that it dials owns the RDMA listener
// that has accepted its request. Any program can take the address of an RDMA listener. Only
// the owner of the TCP port can answer over a TCP connection to that port.
//
// The request names a port of the dialer and a random number. The listener remembers both,
// and accepts. Then the dialer connects from that port to the TCP port and sends the
// question: "RSOCK", version, kind, 0, random number. The listener answers: "RSOCK",
// version, kind, 0, random number, SHA-256 of the address at which it got the request. Both
// sides then drop the TCP connection. The address keeps a program from passing the request
// on to the listener over another fabric.
const (
	questionSize = 8 + nonceSize
	answerSize   = questionSize + sha256.Size
)

// question returns the first message over the TCP connection.
func question(nonce [nonceSize]byte) []byte {
	return append([]byte{'R', 'S', 'O', 'C', 'K', helloVersion, byte(proofQuestion), 0}, nonce[:]...)
}

// answer returns the proof for an RDMA listener.
func answer(nonce [nonceSize]byte, at rdma.Addr) []byte {
	name := at.Name
	if at.AddrPort.IsValid() {
		name = withoutZone(at.AddrPort).String()
	}
	sum := sha256.Sum256([]byte(at.Fabric + " " + name))
	b := append([]byte{'R', 'S', 'O', 'C', 'K', helloVersion, byte(proofAnswer), 0}, nonce[:]...)
	return append(b, sum[:]...)
}

// newNonce returns a random number for a proof.
func newNonce() (n [nonceSize]byte) {
	_, _ = rand.Read(n[:]) // never fails
	return n
}

// dynamicPort returns a number for a port of a dialer.
func dynamicPort() uint16 {
	return firstDynamicPort + mathrand.N[uint16](65535-firstDynamicPort)
}

// errPortInUse: the port for the proof is in use. The caller tries another port.
var errPortInUse = errors.New("the port for the proof is in use")

// connectForProof connects to the TCP port of a destination from a port of an address of this
// host. Before it connects it calls request, which announces the port. On Unix the port is
// held during request.
//
// Errors: the error of request; errPortInUse; ErrUnproven, after request; the error of
// opening a socket.
func connectForProof(ctx context.Context, via net.Dialer, from netip.Addr, to netip.AddrPort, pick func() uint16, request func(port uint16) error) (*net.TCPConn, error) {
	hold := holdPort(&via, from, pick)
	prepare := controlOf(&via)
	requested := false
	var failed error
	via.Control = nil
	via.ControlContext = func(ctx context.Context, network, address string, c syscall.RawConn) error {
		if requested {
			return errPortInUse // the dialer wants another socket, which has another port
		}
		if err := prepare(ctx, network, address, c); err != nil {
			return err
		}
		port, err := hold(c)
		if err != nil {
			return err
		}
		requested = true
		failed = request(port)
		return failed
	}
	c, err := via.DialContext(ctx, "tcp", to.String())
	switch {
	case err == nil:
		return c.(*net.TCPConn), nil
	case failed != nil:
		return nil, failed
	case errors.Is(err, errPortInUse):
		return nil, err
	case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("%w: %w", errPortInUse, err)
	case requested:
		return nil, fmt.Errorf("%w: %w", ErrUnproven, err)
	}
	return nil, err
}

// controlOf returns the function of a dialer that prepares a socket.
func controlOf(d *net.Dialer) func(ctx context.Context, network, address string, c syscall.RawConn) error {
	switch plain := d.Control; {
	case d.ControlContext != nil:
		return d.ControlContext
	case plain != nil:
		return func(_ context.Context, network, address string, c syscall.RawConn) error {
			return plain(network, address, c)
		}
	}
	return func(context.Context, string, string, syscall.RawConn) error { return nil }
}

// askProof asks for the proof for the RDMA listener that has accepted a request, checks it,
// and resets the TCP connection.
//
// Errors: ErrUnproven.
func askProof(ctx context.Context, c *net.TCPConn, nonce [nonceSize]byte, at rdma.Addr) error {
	defer reset(c)
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	got := make([]byte, answerSize)
	_, err := c.Write(question(nonce))
	if err == nil {
		_, err = io.ReadFull(c, got)
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ErrUnproven, context.Cause(ctx))
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnproven, err)
	case subtle.ConstantTimeCompare(got, answer(nonce, at)) != 1:
		return ErrUnproven
	}
	return nil
}

// proofs are the TCP connections that dialers have announced to a Listener. Safe for
// concurrent use.
type proofs struct {
	mu     sync.Mutex // guards the fields below
	byPeer map[netip.AddrPort]*announced
}

// announced is a TCP connection for a proof that a request has announced.
type announced struct {
	nonce [nonceSize]byte
	at    rdma.Addr       // the RDMA listener that got the request
	ctx   context.Context // of the handshake
	given chan struct{}   // closed when the proof is sent
}

// proofPeer returns the address that the TCP connection of a request comes from.
func proofPeer(call *hello) netip.AddrPort {
	return netip.AddrPortFrom(call.from.Addr(), call.proofPort)
}

// announce enters the TCP connection of a request. It returns nil if another request has
// announced the same connection.
func (p *proofs) announce(ctx context.Context, call *hello, at rdma.Addr) *announced {
	a := &announced{nonce: call.nonce, at: at, ctx: ctx, given: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byPeer[proofPeer(call)] != nil {
		return nil
	}
	p.byPeer[proofPeer(call)] = a
	return a
}

// forget removes the TCP connection of a request, if it has not come.
func (p *proofs) forget(call *hello, a *announced) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byPeer[proofPeer(call)] == a {
		delete(p.byPeer, proofPeer(call))
	}
}

// take removes and returns the announcement of a TCP connection from peer, or nil.
func (p *proofs) take(peer netip.AddrPort) *announced {
	peer = withoutZone(peer)
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.byPeer[peer]
	delete(p.byPeer, peer)
	return a
}

// prove answers the question on an announced TCP connection and closes it. It returns false
// if the connection asks no question before the handshake ends. The connection is then as it
// was: prove has taken no byte from it.
func (a *announced) prove(c *net.TCPConn) bool {
	ended := make(chan struct{})
	stop := context.AfterFunc(a.ctx, func() {
		_ = c.SetReadDeadline(time.Unix(1, 0))
		close(ended)
	})
	asked := peekIs(c, question(a.nonce))
	if !stop() {
		<-ended
		_ = c.SetReadDeadline(time.Time{})
	}
	if !asked {
		return false
	}
	_ = c.SetDeadline(time.Now().Add(proofTime))
	if _, err := io.CopyN(io.Discard, c, questionSize); err == nil {
		close(a.given) // before the answer, after which the dialer negotiates
		_, _ = c.Write(answer(a.nonce, a.at))
	}
	c.Close()
	return true
}

// proofTime bounds the time to read a question that has arrived, and to send its answer.
const proofTime = 10 * time.Second
