package association

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"unicode/utf16"

	"lwio/internal/wire"
)

// PipeName is the name of the pipe on which clients negotiate.
//
// Source: [OP-34]
const PipeName = "lwio"

// Config configures an Association. All fields but AllowMD5 are required.
type Config struct {
	ServerName string
	Logger     *slog.Logger
	// AllowMD5 accepts an AUTH without the keyed signature, or with a keyed signature that is not
	// bound to its connection.
	AllowMD5 bool
	// ConnectionsPerKey bounds the connections that use one pair of keys at a time.
	ConnectionsPerKey int
	// Fabrics returns the address blocks of the listening providers, in order of preference. It
	// returns none if LWIO is not offered.
	Fabrics func() []wire.AddressBlock
	// Go runs a function in a goroutine. It returns false if the server is closing. Closing is
	// closed when the server closes.
	Go      func(func()) bool
	Closing <-chan struct{}
}

// Association negotiates with SMB sessions and authenticates the connections of their
// clients.
type Association struct {
	cfg  Config
	keys *keyTable
}

// New returns an Association without keys.
func New(cfg Config) *Association {
	return &Association{cfg: cfg, keys: newKeyTable(cfg.ConnectionsPerKey)}
}

// errClosing refuses a negotiation while the server is closing.
var errClosing = fmt.Errorf("the server shuts down: %w", net.ErrClosed)

// ResumeContext returns the context that goes with a resume key: the UNC of the pipe, or nil if LWIO
// is not offered.
//
// Source: [LWIO §Discovery] [OP-30] [OP-32]
func (a *Association) ResumeContext() []byte {
	if len(a.cfg.Fabrics()) == 0 {
		return nil
	}
	var b []byte
	for _, u := range utf16.Encode([]rune(`\\` + a.cfg.ServerName + `\pipe\` + PipeName)) {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return b
}

// Negotiate answers a message on the pipe of an SMB session of a lineage with at most maxOutput bytes.
// secret is the application key of the session, zero if it has none. An error closes the pipe. The name
// of the client is logged and has no other use. Negotiate first fences the connections of the same
// lineage with the same client key.
//
// Source: [LWIO §Network Discovery] [OP-35] [OP-36] [OP-37] [OP-41] [OP-46b] [OP-112] [LWIO claim 8]
func (a *Association) Negotiate(ctx context.Context, lineage Lineage, secret [16]byte, request []byte, maxOutput int) ([]byte, error) {
	req, err := wire.DecodeNegotiateRequest(request)
	if err != nil {
		return nil, fmt.Errorf("lwio: negotiate: %w", err)
	}
	for _, c := range a.keys.fence(lineage, req.Key) {
		c.Fence()
		select {
		case <-c.Done():
		case <-ctx.Done():
			return nil, fmt.Errorf("lwio: negotiate: %w", context.Cause(ctx))
		}
	}
	pair, first, err := a.keys.add(lineage, secret, req.Key)
	if err != nil {
		return nil, fmt.Errorf("lwio: negotiate: %w", err)
	}
	if first && !a.watch(lineage) {
		a.keys.endLineage(lineage)
		return nil, fmt.Errorf("lwio: negotiate: %w", errClosing)
	}
	lineage.Retain()
	resp := wire.NegotiateResponse{
		ServerName: a.cfg.ServerName, Key: pair.serverKey, Providers: common(req.Providers, a.cfg.Fabrics()),
	}
	out, err := resp.AppendFitting(nil, min(int(req.ResponseLength), maxOutput))
	if err != nil {
		a.keys.drop(pair)
		return nil, fmt.Errorf("lwio: negotiate: %w", err)
	}
	a.cfg.Logger.Debug("lwio: negotiated", "user", lineage.User(), "client", req.ClientName)
	return out, nil
}

// watch ends the keys and the connections of a lineage when the lineage ends; false if the server is
// closing.
//
// Source: [OP-42]
func (a *Association) watch(lineage Lineage) bool {
	return a.cfg.Go(func() {
		select {
		case <-lineage.Done():
		case <-a.cfg.Closing:
		}
		loggedOff := lineage.LoggedOff()
		for _, c := range a.keys.endLineage(lineage) {
			c.EndLineage(loggedOff)
		}
	})
}

// common returns the fabrics of both sides, in the server's order. It compares their names.
//
// Source: [OP-38] [OP-38b]
func common(theirs, ours []wire.AddressBlock) []wire.AddressBlock {
	var both []wire.AddressBlock
	for _, f := range ours {
		for _, p := range theirs {
			if p.Name == f.Name {
				both = append(both, f)
				break
			}
		}
	}
	return both
}

// Causes of a refusal of AUTH. Package wire and the table of keys have more of them.
var (
	errNoKeyed         = errors.New("no keyed signature")
	errNoSecret        = errors.New("the SMB session has no application key")
	errNotBound        = errors.New("the keyed signature is not bound to the connection")
	errOtherConnection = errors.New("the AUTH was made for another connection")
)
