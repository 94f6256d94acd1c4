package association

import (
	"crypto/rand"
	"fmt"

	"lwio/internal/wire"
)

// Client is a client with a valid AUTH.
type Client struct {
	// Params are the parameters of the AUTH.
	Params wire.AuthParams
	pair   *keyPair
	header []byte // of the AUTH
}

// Lineage returns the lineage of the SMB session that the client negotiated on.
func (c *Client) Lineage() Lineage { return c.pair.lineage }

// Check checks the header and the parameters of an AUTH. binding names the connection on which the AUTH
// arrived. Check changes no state; Admit does.
//
// Source: [LWIO claim 12] [LWIO claim 13] [OP-46c] [OP-101]
func (a *Association) Check(header wire.Header, params []byte, binding [wire.BindingSize]byte) (*Client, error) {
	p, err := wire.DecodeAuthParams(params)
	if err != nil {
		return nil, err
	}
	if err := checkParams(&p); err != nil {
		return nil, err
	}
	pair, err := a.keys.find(*p.Key)
	if err != nil {
		return nil, err
	}
	c := &Client{Params: p, pair: pair, header: header.AppendTo(nil)}
	return c, a.verify(c, params, binding)
}

// checkParams checks the rules of package wire and the needs of this server: the parameters of the
// server fit into one RDMA write, and READs are not split into tiny writes.
//
// Source: [OP-48] [OP-60]
func checkParams(p *wire.AuthParams) error {
	if err := p.CheckClient(); err != nil {
		return err
	}
	if p.MaxRdmaWindowSize < wire.AuthBufferSize {
		return fmt.Errorf("RDMA writes of at most %d bytes", p.MaxRdmaWindowSize)
	}
	return nil
}

// verify checks the MD5 signature, and the keyed signature and the binding if they are present or
// required. The nonce of the connection is new, so a bound AUTH that was copied from another
// connection, or sent before, is refused.
//
// Source: [OP-42b] [OP-45] [OP-46] [OP-46b] [OP-46c]
func (a *Association) verify(c *Client, params []byte, binding [wire.BindingSize]byte) error {
	if err := wire.VerifyMD5(params); err != nil {
		return err
	}
	switch {
	case c.Params.Keyed == nil && a.cfg.AllowMD5:
		return nil
	case c.Params.Keyed == nil:
		return errNoKeyed
	case c.pair.authKey == nil:
		return errNoSecret
	case c.Params.Binding == nil && !a.cfg.AllowMD5:
		return errNotBound
	case c.Params.Binding != nil && *c.Params.Binding != binding:
		return errOtherConnection
	}
	return wire.VerifyKeyed(params, c.pair.authKey, wire.RoleClient, c.header, nil)
}

// Admit adds the connection of a client that Check accepted. It fails if the pair of keys has ended,
// or if too many connections use the pair. The caller calls Leave when the connection has ended.
func (a *Association) Admit(c *Client, conn Conn) error { return a.keys.admit(c.pair, conn) }

// Leave removes a connection that was admitted.
func (a *Association) Leave(c *Client, conn Conn) { a.keys.leave(c.pair, conn) }

// Seals reports whether the client asks for a sealed connection that this server can seal. The keyed
// signature covers the question, so no other peer can withdraw it.
//
// Source: [OP-114b]
func (c *Client) Seals() bool {
	return c.Params.Seal&wire.SealAES128GCM != 0 && c.Params.Keyed != nil && c.Params.Binding != nil
}

// SealKeys returns the keys of a sealed connection: of the messages of the client, and of the server.
// Precondition: Seals.
func (c *Client) SealKeys() (client, server [wire.SealKeySize]byte) {
	nonce, binding := c.Params.Keyed.Nonce, *c.Params.Binding
	return wire.DeriveSealKey(c.pair.authKey, wire.RoleClient, nonce, binding), wire.DeriveSealKey(c.pair.authKey, wire.RoleServer, nonce, binding)
}

// Answer appends the server's parameters p, the answer to the AUTH of c, to b, which is empty. It adds
// the client's key, and the binding and a keyed signature if the client sent them.
//
// Source: [LWIO §Connection Authentication] [OP-46c] [OP-47] [LWIO claim 14]
func (a *Association) Answer(b []byte, c *Client, p wire.AuthParams) ([]byte, error) {
	p.Key, p.Signature = &c.pair.clientKey, new([16]byte)
	if c.Params.Keyed != nil {
		p.Binding = c.Params.Binding
		p.Keyed = &wire.KeyedOption{}
		rand.Read(p.Keyed.Nonce[:]) // never fails
	}
	block := p.AppendTo(b)
	if p.Keyed != nil {
		err := wire.SignKeyed(block, c.pair.authKey, wire.RoleServer, c.header, c.Params.Keyed.Nonce[:])
		if err != nil {
			return nil, err
		}
	}
	return block, wire.SignMD5(block)
}
