package server

import (
	"context"
	"encoding/binary"
	"fmt"
	"unicode/utf16"

	"lwio/internal/wire"
	"lwio/rdma"
)

// pipeName is the pipe on which clients negotiate.
//
// Source: [OP-34]
const pipeName = "lwio"

// resumeContext is what stands beside a resume key: the pipe's UNC, or nothing
// if LWIO is not to be had.
//
// Source: [LWIO §Discovery] [OP-30] [OP-32]
func (e *engine) resumeContext() []byte {
	if len(e.listening()) == 0 {
		return nil
	}
	var b []byte
	for _, u := range utf16.Encode([]rune(`\\` + e.name + `\pipe\` + pipeName)) {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return b
}

// negotiate answers a message on the pipe of an SMB session; an error closes
// the pipe. The client's name is logged and believed by nobody.
//
// Source: [LWIO §Network Discovery] [OP-35] [OP-36] [OP-37] [OP-41] [OP-112] [LWIO claim 8]
func (e *engine) negotiate(ctx context.Context, sess session, request []byte, maxOutput int) ([]byte, error) {
	req, err := wire.DecodeNegotiateRequest(request)
	if err != nil {
		return nil, fmt.Errorf("lwio: negotiate: %w", err)
	}
	for _, c := range e.keys.fence(sess, req.Key) {
		c.cut(errFenced)
		select {
		case <-c.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("lwio: negotiate: %w", context.Cause(ctx))
		}
	}
	pair, first, err := e.keys.add(sess, req.Key)
	if err != nil {
		return nil, fmt.Errorf("lwio: negotiate: %w", err)
	}
	if first && !e.watch(sess) {
		e.keys.endSession(sess)
		return nil, fmt.Errorf("lwio: negotiate: %w", errShutdown)
	}
	resp := wire.NegotiateResponse{
		ServerName: e.name, Key: pair.serverKey, Providers: common(req.Providers, e.listening()),
	}
	out, err := resp.AppendFitting(nil, min(int(req.ResponseLength), maxOutput))
	if err != nil {
		e.keys.drop(pair)
		return nil, fmt.Errorf("lwio: negotiate: %w", err)
	}
	e.log.Debug("lwio: negotiated", "user", sess.User(), "client", req.ClientName)
	return out, nil
}

// watch sees to it that connections and keys end with their session; false says
// that the engine is closing.
func (e *engine) watch(sess session) bool {
	return e.spawn(func() {
		select {
		case <-sess.Done():
		case <-e.ctx.Done():
		}
		cause := errSessionEnded
		if sess.LoggedOff() {
			cause = errClientLeft // which its connections say too, and perhaps later
		}
		for _, c := range e.keys.endSession(sess) {
			c.cut(cause)
		}
	})
}

// common lists what both sides have, in the server's order: a fabric is the
// same if its name is.
//
// Source: [OP-38] [OP-38b]
func common(theirs []wire.AddressBlock, ours []*fabric) []wire.AddressBlock {
	var both []wire.AddressBlock
	for _, f := range ours {
		for _, p := range theirs {
			if p.Name == f.name {
				both = append(both, wire.AddressBlock{Name: f.name, Instances: []wire.NetAddress{instance(f.addr)}})
				break
			}
		}
	}
	return both
}

// instance says how to reach a listener: on IP fabrics at the address where SMB
// was reached, on the port that follows.
//
// Source: [OP-38b] [OP-39]
func instance(a rdma.Addr) wire.NetAddress {
	if a.AddrPort.IsValid() {
		return wire.NetAddress{Discriminator: binary.BigEndian.AppendUint16(nil, a.AddrPort.Port())}
	}
	return wire.NetAddress{HostAddress: a.Host[:], Discriminator: []byte(a.Name)}
}
