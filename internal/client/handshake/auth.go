package handshake

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"

	"lwio/internal/wire"
	"lwio/rdma"
)

// errNotBound refuses a server that would accept a copy of the AUTH on another connection.
var errNotBound = errors.New("the server does not bind AUTH to the connection, so that a copy would be valid elsewhere, and that is not allowed")

// Auth is an AUTH message, and the values that its answer is checked with.
type Auth struct {
	// Header and Body are the message. The keyed signature covers the header, so that it
	// must be sent as it is.
	Header wire.Header
	Body   []byte

	assoc    *Association
	sent     *wire.AuthParams
	allowMD5 bool
}

// Connection is the RDMA connection that an AUTH is sent on.
type Connection struct {
	Fabric      string // name of the provider
	PrivateData []byte // with which the server accepted the connection
}

// binding returns the name of the connection, or nil if the server has sent no nonce.
//
// Source: [OP-46c]
func (c *Connection) binding() *[wire.BindingSize]byte {
	start, ok := wire.DecodeConnectionStart(c.PrivateData)
	if !ok {
		return nil
	}
	binding := start.Binding(c.Fabric)
	return &binding
}

// Auth makes the AUTH message that proves to the server that this side negotiated, with
// the parameters p of this side, to which it adds the key and the signatures; p must not
// change any more. The server's parameters are to arrive in room, wire.AuthBufferSize
// bytes. on is the connection that the AUTH is valid on. allowMD5 says that a server may leave
// out the keyed signature, or the nonce of the connection.
//
// Errors: there is no key for a keyed signature, or no nonce of the connection, and allowMD5 is
// not set.
//
// Source: [OP-45], [OP-46b], [OP-46c]
func (a *Association) Auth(cookie uint64, p *wire.AuthParams, room rdma.RemoteAddr, on Connection, allowMD5 bool) (*Auth, error) {
	binding := on.binding()
	switch {
	case allowMD5:
	case a.authKey == nil:
		return nil, errors.New("the SMB dialect has no application key, and MD5 alone is not allowed")
	case binding == nil:
		return nil, errNotBound
	}
	p.Key, p.Signature = &a.serverKey, new([16]byte)
	if a.authKey == nil {
		p.Extensions = 0 // the server goes by the text alone
	} else {
		p.Binding, p.Keyed = binding, new(wire.KeyedOption)
		rand.Read(p.Keyed.Nonce[:]) // never fails
	}
	body := p.AppendTo(nil)
	h := wire.NewAuth(len(body), wire.RDMARegion{DataVa: room.Addr, DataMh: uint32(room.Token), Length: wire.AuthBufferSize})
	h.CompleteBySend(cookie, 0)
	if a.authKey != nil {
		if err := wire.SignKeyed(body, a.authKey, wire.RoleClient, h.AppendTo(nil), nil); err != nil {
			return nil, err
		}
	}
	return &Auth{h, body, a, p, allowMD5}, wire.SignMD5(body)
}

// SealKeys returns the keys of a sealed connection: of the messages of the client, and of the server.
// Precondition: the AUTH has a keyed signature and is bound to its connection.
//
// Source: [OP-114b]
func (m *Auth) SealKeys() (client, server [wire.SealKeySize]byte) {
	nonce, binding := m.sent.Keyed.Nonce, *m.sent.Binding
	return wire.DeriveSealKey(m.assoc.authKey, wire.RoleClient, nonce, binding), wire.DeriveSealKey(m.assoc.authKey, wire.RoleServer, nonce, binding)
}

// Check reads the server's parameters, and checks that it is the server that was
// negotiated with. b must be memory that the server can no longer write to.
//
// Errors: *Error; another where only MD5 speaks for the server, and that is not allowed.
//
// Source: [LWIO §Connection Authentication], [LWIO claim 12], [OP-46] to [OP-50j], [OP-46c], [OP-112]
func (m *Auth) Check(b []byte) (wire.AuthParams, error) {
	p, err := wire.DecodeAuthParams(b)
	if err != nil {
		return p, broke("%v", err)
	}
	// First the identity of the server, then its parameters.
	if p.Key == nil || subtle.ConstantTimeCompare(p.Key[:], m.assoc.clientKey[:]) != 1 {
		return p, spoofed("it does not know the client's key")
	}
	if err := wire.VerifyMD5(b); err != nil {
		return p, spoofed("%s", reasonOf(err))
	}
	switch {
	case p.Keyed != nil && m.sent.Keyed != nil:
		if err := wire.VerifyKeyed(b, m.assoc.authKey, wire.RoleServer, m.Header.AppendTo(nil), m.sent.Keyed.Nonce[:]); err != nil {
			return p, spoofed("%s: it does not know the session key", reasonOf(err))
		}
	case !m.allowMD5:
		return p, errors.New("the server signs with MD5 alone, which proves nothing, and is not allowed")
	}
	switch {
	case p.Binding != nil && (m.sent.Binding == nil || *p.Binding != *m.sent.Binding):
		return p, spoofed("it answers for another connection")
	case p.Binding == nil && !m.allowMD5:
		return p, errNotBound
	}
	if err := p.CheckServer(m.sent); err != nil {
		return p, broke("%v", err)
	}
	if id := p.PreviousSessionID; id != nil && (m.sent.PreviousSessionID == nil || *id != *m.sent.PreviousSessionID) {
		return p, broke("the server has the outcomes of a connection that was not asked for")
	}
	return p, nil
}

// reasonOf is the fault of a message, without the status that a server would
// answer.
func reasonOf(err error) string {
	var e *wire.Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return err.Error()
}
