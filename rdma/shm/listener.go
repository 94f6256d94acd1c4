//go:build linux

package shm

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// listenSocket is the socket of a listener.
type listenSocket struct {
	*net.UnixListener
	a    *adapter
	name string
}

// Listen binds the name, or a random name if it is empty.
func (a *adapter) Listen(ctx context.Context, op string, local rdma.Addr) (softrdma.ListenSocket, error) {
	if !a.ours(local) {
		return nil, opError(op, local.String(), rdma.StatusInvalidAddress, nil)
	}
	name := local.Name
	if name == "" {
		name = randomName()
	}
	nl, err := a.p.cfg.Listen(func() (*net.UnixListener, error) {
		lc := net.ListenConfig{Control: denyRights}
		nl, err := lc.Listen(ctx, "unixpacket", "@"+name)
		if err != nil {
			return nil, err
		}
		return nl.(*net.UnixListener), nil
	})
	if err != nil {
		return nil, opError(op, a.addr(name).String(), statusOf(err), err)
	}
	return &listenSocket{nl, a, strings.TrimPrefix(nl.Addr().String(), "@")}, nil
}

// Local returns the address of the name.
func (d *listenSocket) Local() rdma.Addr { return d.a.addr(d.name) }

// HostOf returns the same host for all peers.
func (d *listenSocket) HostOf(net.Conn) netip.Prefix { return netip.Prefix{} }

// ReadRequest checks the user of the peer and reads its request.
func (d *listenSocket) ReadRequest(nc net.Conn) (softrdma.Request, *softrdma.PeerParams, error) {
	cfg := &d.a.p.cfg
	sock := nc.(*net.UnixConn)
	_ = sock.SetDeadline(time.Now().Add(cfg.RequestTimeout))
	uid, req, err := d.a.p.readRequest(sock)
	if errors.Is(err, errUser) {
		forbid(sock)
	}
	if err != nil {
		return nil, nil, err
	}
	return &request{d.a, sock, uid, req}, req.params(), nil
}

// forbid reports to a peer that its user is refused. It reads the request first, because
// the close of a socket with unread messages discards the messages to the peer.
func forbid(nc *net.UnixConn) {
	_, _ = nc.Read(make([]byte, 1)) // bounded by the RequestTimeout
	_ = nc.SetDeadline(time.Now().Add(rejectTime))
	_ = sendHello(nc, &hello{kind: helloForbidden})
}

// readRequest reads the request of a peer, if AllowUID admits its user.
func (p *Provider) readRequest(nc *net.UnixConn) (uint32, hello, error) {
	uid, err := p.checkUser(nc)
	if err != nil {
		return uid, hello{}, err
	}
	req, _, _, err := p.foreign.receiveHello(nc, uid, 0)
	if err == nil && req.kind != helloRequest {
		err = errHello
	}
	if err == nil {
		err = nc.SetDeadline(time.Time{})
	}
	return uid, req, err
}
