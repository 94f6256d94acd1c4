package handshake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
)

const (
	// pipeName is the pipe of the LWIO server on IPC$, of the SMB session that there is:
	// host and pipe in the context of a resume key are ignored.
	// [OP-32b], [OP-34]
	pipeName = "lwio"
	// maxNegotiate is the longest message of the pipe. [OP-35]
	maxNegotiate = 0xFFFF
	// maxInstances bounds the addresses that are tried.
	maxInstances = 32
)

// Session is the SMB session that the pipe is opened in.
type Session interface {
	// OpenPipe opens a message pipe on IPC$.
	OpenPipe(ctx context.Context, name string) (Pipe, error)
	// ApplicationKey is the key that both ends share and no other goroutine knows; dialects
	// before 3.0 have none.
	ApplicationKey() ([]byte, bool)
	// Encryption is the cipher of the messages of the session, "" if they are signed only. They are
	// encrypted if this side, the server or the share requires it.
	Encryption() string
}

// Pipe is an open named pipe.
type Pipe interface {
	// Transact writes one message and reads one of at most maxOut bytes.
	Transact(ctx context.Context, in []byte, maxOut int) ([]byte, error)
	io.Closer
}

// Association is the agreement of client and server over the pipe. It does not change.
type Association struct {
	// Offers are the providers that both sides have, in the server's order.
	Offers []Offer

	clientKey, serverKey [16]byte
	// authKey is the key of the keyed AUTH option, nil if the SMB dialect has no
	// application key. [OP-46b]
	authKey []byte
}

// Offer is a provider that both sides have, and where the server listens.
type Offer struct {
	Provider  string
	Instances []wire.NetAddress
}

// Negotiate asks the server which providers it has in common with this side. Before it
// answers, the server ends the connections that were made with the same client key, and
// waits until nothing of them goes on.
//
// Errors: *Error; the errors of sess.
//
// Source: [LWIO §Network Discovery], [OP-34] to [OP-42], [OP-112]
func Negotiate(ctx context.Context, sess Session, providers []rdma.Provider, key [16]byte) (*Association, error) {
	resp, app, ok, err := exchangeKeyed(ctx, sess, providers, key)
	if err != nil {
		return nil, err
	}
	a := &Association{clientKey: key, serverKey: resp.Key}
	if ok {
		a.authKey = wire.DeriveAuthKey(app, a.clientKey, a.serverKey)
	}
	left := maxInstances
	for _, block := range resp.Providers {
		if !offered(providers, block.Name) {
			return nil, broke("the server names provider %q, which was not offered", block.Name)
		}
		n := min(left, len(block.Instances))
		left -= n
		a.Offers = append(a.Offers, Offer{block.Name, block.Instances[:n]})
	}
	return a, nil
}

// maxReplaced bounds the sessions that one NEGOTIATE outlives.
const maxReplaced = 8

// exchangeKeyed is exchange that returns also the application key of the SMB session that it used. If the
// session is replaced meanwhile, it sends the NEGOTIATE again.
func exchangeKeyed(
	ctx context.Context, sess Session, providers []rdma.Provider, key [16]byte,
) (resp *wire.NegotiateResponse, app []byte, ok bool, err error) {
	for range maxReplaced {
		app, ok = sess.ApplicationKey()
		if resp, err = exchange(ctx, sess, providers, key); err != nil {
			return nil, nil, false, err
		}
		if now, _ := sess.ApplicationKey(); bytes.Equal(now, app) {
			return resp, app, ok, nil
		}
	}
	return nil, nil, false, errors.New("negotiate: the SMB session is replaced again and again")
}

// exchange sends one NEGOTIATE over the pipe.
func exchange(ctx context.Context, sess Session, providers []rdma.Provider, key [16]byte) (*wire.NegotiateResponse, error) {
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
	p, err := sess.OpenPipe(ctx, pipeName)
	if errors.Is(err, ntstatus.ObjectNameNotFound) {
		return nil, &Error{Off, fmt.Errorf("open pipe %s: %w", pipeName, err)}
	}
	if err != nil {
		return nil, fmt.Errorf("open pipe %s: %w", pipeName, err)
	}
	defer p.Close()
	out, err := p.Transact(ctx, msg, maxNegotiate)
	if err != nil {
		return nil, fmt.Errorf("negotiate: %w", err)
	}
	resp, err := wire.DecodeNegotiateResponse(out)
	if err != nil {
		return nil, broke("negotiate: %w", err)
	}
	return &resp, nil
}

func offered(providers []rdma.Provider, name string) bool {
	return slices.ContainsFunc(providers, func(p rdma.Provider) bool { return p.Name() == name })
}
