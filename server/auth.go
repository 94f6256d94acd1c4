package server

import (
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/ratelimit"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/server/internal/association"
)

// errUserLimit refuses an AUTH.
var errUserLimit = errors.New("the user has too many connections")

// authenticator handles AUTH and holds its result. The receive loop sets the result once. Other
// goroutines read it after they received an operation from the loop.
type authenticator struct {
	c       *conn
	timer   *time.Timer // bounds the time until AUTH
	refused bool        // the connection ends when the answer has been sent
	start   wire.ConnectionStart
	passed  bool // set with connTable.mu held

	client     *association.Client
	lineage    association.Lineage
	limiter    *ratelimit.Limiter // of the user's requests and bytes; nil for no bound
	sessionID  [8]byte
	since      time.Time
	peerWindow int         // most bytes of one RDMA write
	peerPage   uint16      // page size of the client, in bytes
	messages   wire.Limits // of the client; with the extensions that it has
}

// privateData makes the nonce of the connection and returns the private data that accepts it.
//
// Source: [OP-46c] [OP-102]
func (a *authenticator) privateData() []byte {
	rand.Read(a.start.Nonce[:]) // never fails
	return a.start.AppendTo(nil)
}

// handle answers the first message of a connection. A refused client receives only the status. Its
// connection ends when the answer has been sent, and later messages are ignored.
//
// Source: [LWIO §Connection Authentication] [OP-50c] [OP-50d]
func (a *authenticator) handle(o *op) error {
	c := a.c
	if a.refused {
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
		err = a.check(o)
	}
	switch {
	case errors.Is(err, errAuthTimeout):
		return err
	case errors.Is(err, errUserLimit):
		c.engine.count.userLimited.Add(1)
		c.engine.noise.Warn(c.log, "lwio: connection refused", "cause", err)
		c.engine.auditRefusal(c, err)
		a.refuse(o, ntstatus.InsufficientResources)
	case err != nil:
		c.engine.count.authFailures.Add(1)
		c.engine.noise.Warn(c.log, "lwio: AUTH refused", "cause", err)
		c.engine.auditRefusal(c, err)
		a.refuse(o, ntstatus.AccessDenied)
	default:
		c.log.Info("lwio: client authenticated",
			"user", a.lineage.User(), "session", a.lineage.ID(), "credits", c.credits.grant, "sealed", c.sealing.on())
		c.log.Log(c.ctx, LevelAudit, "RDMA connection", "user", a.lineage.User(), "session", fmt.Sprintf("%016x", a.lineage.ID()))
		c.answer(o)
		c.flush() // the answer is the first message: the client opens all later ones as sealed
		c.credits.sent()
	}
	return nil
}

// refuse answers an AUTH with an error, after which the connection ends.
func (a *authenticator) refuse(o *op, status ntstatus.Status) {
	c := a.c
	a.refused, o.hangUp, o.recv = true, true, none
	c.reply(o, status)
}

// check verifies the client's parameters. If they are valid, it makes the connection an
// authenticated one and answers with the parameters of the server.
//
// Source: [LWIO claim 12] [LWIO claim 13] [OP-101]
func (a *authenticator) check(o *op) error {
	c := a.c
	client, err := c.engine.association.Check(o.h, o.body(), a.start.Binding(c.fabric.name))
	if err != nil {
		return err // before another connection is replaced
	}
	if err := a.replace(client); err != nil {
		return err
	}
	if !a.timer.Stop() {
		return errAuthTimeout // the connection is being cut
	}
	if !c.engine.conns.enterUser(c, client.Lineage().User()) {
		return errUserLimit
	}
	if err := c.engine.association.Admit(client, c); err != nil {
		return err
	}
	a.pass(client)
	return a.answer(o)
}

// replace ends the connection that the client names as the replaced one, waits for its end, and
// takes its replay results over. If the results are no longer available, the answer does not name
// the old connection, and the client must not replay its writes.
//
// Source: [OP-112]
func (a *authenticator) replace(client *association.Client) error {
	c := a.c
	previous := client.Params.PreviousSessionID
	if previous == nil {
		return nil
	}
	user := client.Lineage().User()
	if old := c.engine.conns.find(*previous, user); old != nil {
		old.cut(errFenced)
		select {
		case <-old.done:
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
	}
	base := client.Params.BaseSequence
	k, ok := c.engine.replay.take(*previous, user, time.Now())
	if ok && int16(base-uint16(k.askedNext)) >= 0 && len(k.doubts) <= maxEarlier {
		c.replay.begin(base, &k)
	} else if err := k.drop(); err != nil {
		c.engine.records.check(err)
	}
	return nil
}

// pass makes the connection an authenticated one.
//
// Source: [OP-50e] [OP-50i] [OP-60] [OP-74c]
func (a *authenticator) pass(client *association.Client) {
	c := a.c
	p := &client.Params
	a.client, a.lineage, a.limiter = client, client.Lineage(), client.Lineage().Limiter()
	rand.Read(a.sessionID[:]) // never fails
	c.credits.holder.user = a.lineage.User()
	c.credits.begin(c.engine.credits.first(min(max(int(p.Credits), 1), c.engine.limits.Credits, c.fabric.layout.credits), c.credits.holder))
	c.poolUser = c.fabric.buffers.joinUser(a.lineage.User())
	a.peerWindow = int(min(p.MaxRdmaWindowSize, c.fabric.info.MaxTransferLength))
	a.peerPage = p.PageSize
	extensions := p.Extensions.Agreed()
	a.messages.FileCalls, a.messages.Names = extensions&wire.FileCalls != 0, extensions&wire.Names != 0
	c.receives.room = c.fabric.layout.dataSize
	if c.replay.replaced == nil {
		c.replay.begin(p.BaseSequence, nil)
	}
	c.openLog()
	if client.Seals() && c.engine.encryption != EncryptionOff && !c.fabric.info.Caps.Has(rdma.CapConfidential) {
		c.beginSealing(client.SealKeys())
	}
	c.engine.count.authenticated.Add(1)
	c.engine.count.credits.Add(int64(c.credits.grant))
	c.engine.conns.pass(c)
}

// answer writes the server's parameters and posts the receives for the granted credits.
//
// Source: [LWIO §Connection Authentication] [OP-13] [OP-28] [OP-47] [OP-50g] [OP-66b] [LWIO claim 14]
func (a *authenticator) answer(o *op) error {
	c := a.c
	client := &a.client.Params
	p := wire.AuthParams{
		RevID: wire.RevID, Endian: 8, PageSize: pageSize, BaseSequence: client.BaseSequence + 1,
		MaxRdmaWindowSize: c.fabric.layout.wire.MaxRdmaWindowSize, MaxSendBufferSize: wire.StatusResponseSize,
		MaxRecvBufferSize: c.fabric.layout.wire.MaxRecvBufferSize, HeaderSize: wire.HeaderSize, Credits: uint16(c.credits.grant),
		SessionID: &a.sessionID,
	}
	if c.replay.replaced != nil {
		p.PreviousSessionID = client.PreviousSessionID
	}
	if c.sealing.on() {
		p.Seal = wire.SealAES128GCM
	}
	p.Extensions = client.Extensions.Agreed()
	block, err := c.engine.association.Answer(c.receives.authAnswer(), a.client, p)
	if err != nil {
		return err
	}
	if err := c.receives.post(c.qp, c.credits.grant-1); err != nil {
		return err
	}
	o.data.size, o.info = len(block), wire.AuthInformation(len(block))
	return nil
}

// Fence ends the connection because the client has replaced it.
func (c *conn) Fence() { c.cut(errFenced) }

// EndLineage ends the connection because its SMB session has ended for good. After a logoff, the end of a
// plain connection by the client may arrive later. The last message of a sealed one comes before the
// logoff.
func (c *conn) EndLineage(loggedOff bool) { c.cut(endOfLineage(loggedOff)) }

func endOfLineage(loggedOff bool) error {
	if loggedOff {
		return errLoggedOff
	}
	return errSessionEnded
}

// lineageEnded returns the cause of the end of the connection if its lineage has ended, perhaps before
// EndLineage is called.
func (a *authenticator) lineageEnded() error {
	select {
	case <-a.lineage.Done():
		return endOfLineage(a.lineage.LoggedOff())
	default:
		return nil
	}
}

// Done returns a channel that is closed when the connection has released all its resources.
func (c *conn) Done() <-chan struct{} { return c.done }
