package server

import (
	"crypto/rand"
	"errors"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/ratelimit"
	"lwio/internal/wire"
	"lwio/server/internal/association"
)

// errUserLimit refuses an AUTH.
var errUserLimit = errors.New("the user has too many connections")

// authState is the result of AUTH. The receive loop sets it; from then on it is constant, and
// other goroutines read it after the loop handed them an operation.
type authState struct {
	timer   *time.Timer // bounds the time until AUTH
	refused bool        // the connection ends when the answer has been sent
	passed  bool        // set with connTable.mu held

	client     *association.Client
	session    association.Session
	limiter    *ratelimit.Limiter // of the user's requests and bytes; nil for no bound
	sessionID  [8]byte
	since      time.Time
	peerWindow int    // most bytes of one RDMA write
	peerPage   uint16 // page size of the client, in bytes
}

// authenticate handles the first message of a connection. A client that is refused learns the
// status and nothing else, and is cut off once the answer has been sent; later messages are
// ignored.
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
	switch {
	case errors.Is(err, errAuthTimeout):
		return err
	case errors.Is(err, errUserLimit):
		c.engine.count.userLimited.Add(1)
		c.engine.noise.Warn(c.log, "lwio: connection refused", "cause", err)
		c.refuse(o, ntstatus.InsufficientResources)
	case err != nil:
		c.engine.count.authFailures.Add(1)
		c.engine.noise.Warn(c.log, "lwio: AUTH refused", "cause", err)
		c.refuse(o, ntstatus.AccessDenied)
	default:
		c.log.Info("lwio: client authenticated",
			"user", c.auth.session.User(), "session", c.auth.session.ID(), "credits", c.credits.grant)
		c.answer(o)
	}
	return nil
}

// refuse answers an AUTH with an error, after which the connection ends.
func (c *conn) refuse(o *op, status ntstatus.Status) {
	c.auth.refused, o.hangUp, o.recv = true, true, none
	c.reply(o, status)
}

// checkAuth checks the client's parameters and, if they are right, makes the connection an
// authenticated one and answers with the server's.
//
// Source: [LWIO claim 12] [LWIO claim 13] [OP-101]
func (c *conn) checkAuth(o *op) error {
	client, err := c.engine.association.Check(o.h, o.body())
	if err != nil {
		return err // before it costs another connection its life
	}
	if err := c.replace(client); err != nil {
		return err
	}
	if !c.auth.timer.Stop() {
		return errAuthTimeout // the connection is being cut
	}
	if !c.engine.conns.enterUser(c, client.Session().User()) {
		return errUserLimit
	}
	if err := c.engine.association.Admit(client, c); err != nil {
		return err
	}
	c.pass(client)
	return c.answerAuth(o)
}

// replace ends the connection that the client names as replaced by this one, waits until
// nothing of it goes on, and takes its results over. Where these are not available any more,
// the answer does not name the old connection: then the client must not replay its writes.
//
// Source: [OP-112]
func (c *conn) replace(client *association.Client) error {
	previous := client.Params.PreviousSessionID
	if previous == nil {
		return nil
	}
	user := client.Session().User()
	if old := c.engine.conns.find(*previous, user); old != nil {
		old.cut(errFenced)
		select {
		case <-old.done:
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
	}
	base := client.Params.BaseSequence
	if k, ok := c.engine.replay.take(*previous, user, time.Now()); ok && int16(base-uint16(k.next)) >= 0 {
		c.replay.begin(base, &k)
	}
	return nil
}

// pass makes the connection an authenticated one.
//
// Source: [OP-50e] [OP-50i] [OP-60] [OP-74c]
func (c *conn) pass(client *association.Client) {
	p := &client.Params
	c.auth.client, c.auth.session, c.auth.limiter = client, client.Session(), client.Session().Limiter()
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

// answerAuth writes the server's parameters and posts the receives of the credits that they
// grant.
//
// Source: [LWIO §Connection Authentication] [OP-13] [OP-28] [OP-47] [OP-50g] [OP-66b] [LWIO claim 14]
func (c *conn) answerAuth(o *op) error {
	client := &c.auth.client.Params
	p := wire.AuthParams{
		RevID: wire.RevID, Endian: 8, PageSize: pageSize, BaseSequence: client.BaseSequence + 1,
		MaxRdmaWindowSize: c.fabric.layout.wire.MaxRdmaWindowSize, MaxSendBufferSize: wire.StatusResponseSize,
		MaxRecvBufferSize: c.fabric.layout.wire.MaxRecvBufferSize, HeaderSize: wire.HeaderSize, Credits: uint16(c.credits.grant),
		SessionID: &c.auth.sessionID,
	}
	if c.replay.replaced != nil {
		p.PreviousSessionID = client.PreviousSessionID
	}
	block, err := c.engine.association.Answer(c.receives.authAnswer(), c.auth.client, p)
	if err != nil {
		return err
	}
	if err := c.receives.post(c.qp, c.credits.grant-1); err != nil {
		return err
	}
	o.staged, o.info = len(block), wire.AuthInformation(len(block))
	return nil
}

// Fence ends the connection because its client has replaced it.
func (c *conn) Fence() { c.cut(errFenced) }

// EndSession ends the connection because its SMB session has ended. Its connections say that
// a client left, too, and perhaps later.
func (c *conn) EndSession(loggedOff bool) {
	if loggedOff {
		c.cut(errClientLeft)
		return
	}
	c.cut(errSessionEnded)
}

// Done returns a channel that is closed when the connection has given everything back.
func (c *conn) Done() <-chan struct{} { return c.done }
