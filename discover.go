package lwio

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
)

const (
	// pipeName is the pipe of the LWIO server on IPC$, of the SMB session that there is:
	// what the context of a resume key says of host and pipe is not followed.
	// [OP-32b], [OP-34]
	pipeName = "lwio"
	// maxNegotiate is the longest message of the pipe. [OP-35]
	maxNegotiate = 0xFFFF
	// maxInstances bounds the addresses that are tried.
	maxInstances = 32
	// connectTimeout bounds connecting to one address, AUTH included. [OP-44]
	connectTimeout = 5 * time.Second
)

// association is what client and server agreed on over the pipe.
type association struct {
	clientKey, serverKey [16]byte
	// authKey is the key of the keyed AUTH option, nil if the SMB dialect has no
	// application key. [OP-46b]
	authKey []byte
	offers  []offer
}

// offer is a provider that both sides have, and where the server listens.
type offer struct {
	provider  string
	instances []wire.NetAddress
}

// negotiate asks the server which providers it has in common with this side. Before it
// answers, the server ends the connections that were made with the same client key, and
// waits until nothing of them goes on.
//
// Source: [LWIO §Network Discovery], [OP-34] to [OP-42], [OP-112]
func negotiate(ctx context.Context, sess session, providers []rdma.Provider, key [16]byte) (*association, error) {
	resp, err := exchange(ctx, sess, providers, key)
	if err != nil {
		return nil, err
	}
	a := &association{clientKey: key, serverKey: resp.Key}
	if app, ok := sess.applicationKey(); ok {
		a.authKey = wire.DeriveAuthKey(app, a.clientKey, a.serverKey)
	}
	left := maxInstances
	for _, block := range resp.Providers {
		if !offered(providers, block.Name) {
			return nil, protocolError("the server names provider %q, which was not offered", block.Name)
		}
		n := min(left, len(block.Instances))
		left -= n
		a.offers = append(a.offers, offer{block.Name, block.Instances[:n]})
	}
	return a, nil
}

// exchange sends one NEGOTIATE over the pipe.
func exchange(ctx context.Context, sess session, providers []rdma.Provider, key [16]byte) (*wire.NegotiateResponse, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "lwio" // it is only logged [OP-41]
	}
	req := wire.NegotiateRequest{ClientName: host, Key: key, ResponseLength: maxNegotiate}
	for _, p := range providers {
		req.Providers = append(req.Providers, wire.AddressBlock{Name: p.Name()})
	}
	msg, err := req.AppendTo(nil)
	if err != nil {
		return nil, err
	}
	p, err := sess.openPipe(ctx, pipeName)
	if errors.Is(err, ntstatus.ObjectNameNotFound) {
		return nil, errLWIOOff
	}
	if err != nil {
		return nil, fmt.Errorf("open pipe %s: %w", pipeName, err)
	}
	defer p.Close()
	out, err := p.transact(ctx, msg, maxNegotiate)
	if err != nil {
		return nil, fmt.Errorf("negotiate: %w", err)
	}
	resp, err := wire.DecodeNegotiateResponse(out)
	if err != nil {
		return nil, fmt.Errorf("negotiate: %w: %w", ErrProtocol, err)
	}
	return &resp, nil
}

func offered(providers []rdma.Provider, name string) bool {
	for _, p := range providers {
		if p.Name() == name {
			return true
		}
	}
	return false
}

// remoteAddr reads an address that the server listens at; server is where SMB was
// reached.
//
// Source: [OP-38b]
func remoteAddr(fabric string, a wire.NetAddress, server netip.Addr) (rdma.Addr, error) {
	if fabric == "shm" {
		addr := rdma.Addr{Fabric: fabric, Name: string(a.Discriminator)}
		if copy(addr.Host[:], a.HostAddress) != len(addr.Host) || len(a.HostAddress) != len(addr.Host) || addr.Name == "" {
			return rdma.Addr{}, protocolError("an address of %d and %d bytes", len(a.HostAddress), len(a.Discriminator))
		}
		return addr, nil
	}
	host := server
	if len(a.HostAddress) != 0 {
		var ok bool
		if host, ok = netip.AddrFromSlice(a.HostAddress); !ok {
			return rdma.Addr{}, protocolError("an address of %d bytes", len(a.HostAddress))
		}
	}
	if len(a.Discriminator) != 2 {
		return rdma.Addr{}, protocolError("a port of %d bytes", len(a.Discriminator))
	}
	port := binary.BigEndian.Uint16(a.Discriminator)
	if !host.IsValid() || port == 0 {
		return rdma.Addr{}, protocolError("the server listens nowhere")
	}
	return rdma.IPAddr(fabric, netip.AddrPortFrom(host, port)), nil
}
