package server

import (
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/ratelimit"
	"lwio/internal/wire"
)

// Why AUTH is refused, besides what package wire says.
var (
	errNoKeyed  = errors.New("no keyed signature")
	errNoSecret = errors.New("the SMB session has no application key")
	errCrowded  = errors.New("the user has too many connections")
)

// authState is what AUTH left. The receive loop sets it; from then on it is constant, and
// other goroutines read it after the loop handed them an operation.
type authState struct {
	timer   *time.Timer // bounds the time until AUTH
	refused bool        // the connection ends when the answer has been sent
	passed  bool        // set with connTable.mu held

	pair       *keyPair
	session    session
	pace       *ratelimit.Limiter // of the user's requests; nil for no bound
	sessionID  [8]byte
	since      time.Time
	peerWindow int    // most bytes of one RDMA write
	peerPage   uint16 // page size of the client, in bytes
}

// authenticate handles the first message of a connection. Whoever fails is told so,
// learns nothing else, and is cut off when the answer is gone; what comes until then is not
// looked at.
//
// Source: [LWIO §Connection Authentication] [OP-50c] [OP-50d]
func (c *conn) authenticate(o *op) error {
	if c.auth.refused {
		return nil
	}
	if o.h.Opcode != wire.OpAuth {
		return violation("%v before AUTH", o.h.Opcode)
	}
	err := o.h.Check(o.size, c.fabric.layout.wire)
	if err != nil && ntstatus.Of(err) != ntstatus.AccessDenied {
		return violation("%w", err)
	}
	if err == nil {
		err = c.checkAuth(o)
	}
	if errors.Is(err, errAuthTimeout) {
		return err
	}
	if errors.Is(err, errCrowded) {
		c.engine.count.crowded.Add(1)
		c.engine.noise.Warn(c.log, "lwio: connection refused", "cause", err)
		c.auth.refused, o.hangUp, o.recv = true, true, none
		c.reply(o, ntstatus.InsufficientResources)
		return nil
	}
	if err != nil {
		c.engine.count.authFailures.Add(1)
		c.engine.noise.Warn(c.log, "lwio: AUTH refused", "cause", err)
		c.auth.refused, o.hangUp, o.recv = true, true, none
		c.reply(o, ntstatus.AccessDenied)
		return nil
	}
	c.log.Info("lwio: client authenticated",
		"user", c.auth.session.User(), "session", c.auth.session.ID(), "credits", c.credits.grant)
	c.answer(o)
	return nil
}

// authenticate checks the client's parameters and, if they are right, takes the
// connection in and answers with the server's.
//
// Source: [LWIO claim 12] [LWIO claim 13] [OP-101]
func (c *conn) checkAuth(o *op) error {
	block := o.body()
	p, err := wire.DecodeAuthParams(block)
	if err != nil {
		return err
	}
	if err := checkClient(&p); err != nil {
		return err
	}
	pair, err := c.engine.keys.find(*p.Key)
	if err != nil {
		return err
	}
	if err := c.verify(o, &p, pair, block); err != nil {
		return err
	}
	var nonce *[16]byte
	if p.Keyed != nil {
		nonce = &p.Keyed.Nonce
	}
	if err := c.engine.keys.fresh(pair, nonce); err != nil {
		return err // before it costs another connection its life
	}
	if err := c.replace(&p, pair); err != nil {
		return err
	}
	if !c.auth.timer.Stop() {
		return errAuthTimeout // nobody passes who is being cut
	}
	if !c.engine.conns.enterUser(c, pair.sess.User()) {
		return errCrowded
	}
	if err := c.engine.keys.admit(pair, nonce, c); err != nil {
		return err
	}
	c.takeIn(&p, pair)
	return c.answerAuth(o, &p)
}

// checkClient demands what this server needs, besides what package wire does:
// that its parameters fit one RDMA write, below which writes would be too many.
//
// Source: [OP-48] [OP-60]
func checkClient(p *wire.AuthParams) error {
	if err := p.CheckClient(); err != nil {
		return err
	}
	if p.MaxRdmaWindowSize < wire.AuthBufferSize {
		return fmt.Errorf("RDMA writes of at most %d bytes", p.MaxRdmaWindowSize)
	}
	return nil
}

// verify checks the signatures: the text's always, the keyed one if it is there
// or must be.
//
// Source: [OP-45] [OP-46] [OP-46b]
func (c *conn) verify(o *op, p *wire.AuthParams, pair *keyPair, block []byte) error {
	if err := wire.VerifyMD5(block); err != nil {
		return err
	}
	switch {
	case p.Keyed == nil && c.engine.allowMD5:
		return nil
	case p.Keyed == nil:
		return errNoKeyed
	case pair.authKey == nil:
		return errNoSecret
	}
	return wire.VerifyKeyed(block, pair.authKey, wire.RoleClient, o.h.AppendTo(nil), nil)
}

// replace ends the connection that the client says this one takes the place of,
// waits until nothing of it goes on, and takes its results over. Where they are not
// to be had any more, the answer does not name the old connection: then the client
// cannot send its writes again.
//
// Source: [OP-112]
func (c *conn) replace(p *wire.AuthParams, pair *keyPair) error {
	if p.PreviousSessionID == nil {
		return nil
	}
	user := pair.sess.User()
	if old := c.engine.conns.find(*p.PreviousSessionID, user); old != nil {
		old.cut(errFenced)
		select {
		case <-old.done:
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
	}
	if k, ok := c.engine.replay.take(*p.PreviousSessionID, user, time.Now()); ok && int16(p.BaseSequence-uint16(k.next)) >= 0 {
		c.replay.begin(p.BaseSequence, &k)
	}
	return nil
}

// takeIn makes the connection an authenticated one.
//
// Source: [OP-50e] [OP-50i] [OP-60] [OP-74c]
func (c *conn) takeIn(p *wire.AuthParams, pair *keyPair) {
	c.auth.pair, c.auth.session, c.auth.pace = pair, pair.sess, pair.sess.Limiter()
	rand.Read(c.auth.sessionID[:]) // never fails
	c.credits.grant = c.engine.credits.first(min(max(int(p.Credits), 1), c.engine.limits.Credits, c.fabric.layout.slots))
	c.auth.peerWindow = int(min(p.MaxRdmaWindowSize, c.fabric.info.MaxTransferLength))
	c.auth.peerPage = p.PageSize
	if c.replay.replaced == nil {
		c.replay.begin(p.BaseSequence, nil)
	}
	c.engine.count.authenticated.Add(1)
	c.engine.count.credits.Add(int64(c.credits.grant))
	c.engine.conns.pass(c)
}

// answerAuth writes the server's parameters and posts the receives of the
// credits that they grant.
//
// Source: [LWIO §Connection Authentication] [OP-13] [OP-28] [OP-47] [OP-50g] [OP-66b] [LWIO claim 14]
func (c *conn) answerAuth(o *op, client *wire.AuthParams) error {
	p := wire.AuthParams{
		RevID: wire.RevID, Endian: 8, PageSize: pageSize, BaseSequence: client.BaseSequence + 1,
		MaxRdmaWindowSize: c.fabric.layout.wire.MaxRdmaWindowSize, MaxSendBufferSize: wire.StatusResponseSize,
		MaxRecvBufferSize: c.fabric.layout.wire.MaxRecvBufferSize, HeaderSize: wire.HeaderSize, Credits: uint16(c.credits.grant),
		Key: &c.auth.pair.clientKey, SessionID: &c.auth.sessionID, Signature: new([16]byte),
	}
	if c.replay.replaced != nil {
		p.PreviousSessionID = client.PreviousSessionID
	}
	var peerNonce []byte
	if client.Keyed != nil {
		p.Keyed = &wire.KeyedOption{}
		rand.Read(p.Keyed.Nonce[:]) // never fails
		peerNonce = client.Keyed.Nonce[:]
	}
	block := p.AppendTo(c.receives.authAnswer())
	if p.Keyed != nil {
		err := wire.SignKeyed(block, c.auth.pair.authKey, wire.RoleServer, o.h.AppendTo(nil), peerNonce)
		if err != nil {
			return err
		}
	}
	if err := wire.SignMD5(block); err != nil {
		return err
	}
	if err := c.receives.post(c.qp, c.credits.grant-1); err != nil {
		return err
	}
	o.staged, o.info = len(block), wire.AuthInformation(len(block))
	return nil
}
