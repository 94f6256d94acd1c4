//go:build linux

package shm

import (
	"context"
	"errors"
	"net"
	"time"

	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
)

// listenSocket is the name of a listener.
type listenSocket struct {
	*net.UnixListener
	a    *adapter
	name string
}

// Listen takes the name, or picks one for an empty name.
func (a *adapter) Listen(_ context.Context, op string, local rdma.Addr) (softrdma.ListenSocket, error) {
	if !a.ours(local) {
		return nil, opError(op, local.String(), rdma.StatusInvalidAddress, nil)
	}
	name := local.Name
	if name == "" {
		name = randomName()
	}
	nl, err := net.ListenUnix("unixpacket", sockAddr(name))
	if err != nil {
		return nil, opError(op, a.addr(name).String(), statusOf(err), err)
	}
	return &listenSocket{nl, a, name}, nil
}

// Local is the address of the name.
func (d *listenSocket) Local() rdma.Addr { return d.a.addr(d.name) }

// HostOf is the same for all peers: there is one host.
func (d *listenSocket) HostOf(net.Conn) string { return "" }

// ReadRequest checks the user of the peer and reads its request.
func (d *listenSocket) ReadRequest(nc net.Conn) (softrdma.Request, *softrdma.PeerParams, error) {
	cfg := &d.a.p.cfg
	sock := nc.(*net.UnixConn)
	_ = sock.SetDeadline(time.Now().Add(cfg.RequestTimeout))
	req, err := readRequest(cfg, sock)
	if errors.Is(err, errUser) {
		forbid(sock)
	}
	if err != nil {
		return nil, nil, err
	}
	return &request{d.a, sock, req}, req.params(), nil
}

// forbid tells a peer that its user is refused. It reads the request first: the close of a
// socket with unread messages discards the messages to the peer.
func forbid(nc *net.UnixConn) {
	_, _ = nc.Read(make([]byte, 1)) // within the time for a request
	_ = nc.SetDeadline(time.Now().Add(rejectTime))
	_ = sendHello(nc, &hello{kind: helloForbidden})
}

// readRequest reads the request of a peer that the policy allows.
func readRequest(cfg *Config, nc *net.UnixConn) (hello, error) {
	if err := cfg.checkUser(nc); err != nil {
		return hello{}, err
	}
	req, peer, b, err := receiveHello(nc)
	peer.Unmap()
	b.Close()
	if err == nil && req.kind != helloRequest {
		err = errHello
	}
	if err == nil {
		err = nc.SetDeadline(time.Time{})
	}
	return req, err
}
