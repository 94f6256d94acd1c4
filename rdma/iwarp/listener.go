package iwarp

import (
	"context"
	"net"
	"net/netip"

	"lwio/internal/evict"
	"lwio/rdma"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/iwarp/internal/frame"
)

// listenSocket is the TCP port of a listener.
type listenSocket struct {
	net.Listener
	a *adapter
}

// Listen binds the port.
func (a *adapter) Listen(ctx context.Context, op string, local rdma.Addr) (softrdma.ListenSocket, error) {
	addr, err := a.tcpAddr(op, local)
	if err != nil {
		return nil, err
	}
	nl, err := a.p.cfg.Listen(ctx, addr)
	if err != nil {
		return nil, opError(op, addr.String(), netStatus(err, rdma.StatusInvalidAddress), err)
	}
	return &listenSocket{nl, a}, nil
}

// Local returns the bound address.
func (d *listenSocket) Local() rdma.Addr { return fabricAddr(d.Addr()) }

// HostOf returns the host of the peer.
func (d *listenSocket) HostOf(nc net.Conn) netip.Prefix { return evict.Host(nc.RemoteAddr()) }

// ReadRequest reads the request of a connection.
//
// Source: [RFC 5044 §7.1.2]
func (d *listenSocket) ReadRequest(nc net.Conn) (softrdma.Request, *softrdma.PeerParams, error) {
	cfg := &d.a.p.cfg
	cfg.keepAlive(nc)
	limitStartup(nc, cfg.RequestTimeout, cfg.WriteTimeout)
	req, err := readStartup(nc, false)
	if err == nil && req.Revision == 0 {
		err = frame.ErrStartupRevision
	}
	if err != nil {
		return nil, nil, err
	}
	return &request{d.a, nc, req}, paramsOf(&req), nil
}
