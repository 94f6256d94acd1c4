package association

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"lwio/internal/ratelimit"
	"lwio/internal/wire"
)

// fakeSession is an SMB session with an application key, and its lineage.
type fakeSession struct {
	app  [16]byte
	kept bool
	done chan struct{}
	left bool
}

func newSession() *fakeSession {
	s := &fakeSession{done: make(chan struct{})}
	rand.Read(s.app[:])
	return s
}

func (s *fakeSession) ID() uint64                  { return 1 }
func (s *fakeSession) User() string                { return "alice" }
func (s *fakeSession) Retain()                     { s.kept = true }
func (s *fakeSession) Limiter() *ratelimit.Limiter { return nil }
func (s *fakeSession) Done() <-chan struct{}       { return s.done }
func (s *fakeSession) LoggedOff() bool             { return s.left }

// fakeConn is a connection that ends at once when it is fenced or its session ends.
type fakeConn struct {
	done   chan struct{}
	causes []string
}

func newConn() *fakeConn { return &fakeConn{done: make(chan struct{})} }

func (c *fakeConn) end(cause string) {
	if c.causes = append(c.causes, cause); len(c.causes) == 1 {
		close(c.done)
	}
}

func (c *fakeConn) Fence()                { c.end("fenced") }
func (c *fakeConn) Done() <-chan struct{} { return c.done }
func (c *fakeConn) EndLineage(loggedOff bool) {
	if loggedOff {
		c.end("logged off")
		return
	}
	c.end("session ended")
}

// newTestAssociation returns an Association that offers one fabric and admits one connection
// with each pair of keys.
func newTestAssociation(t *testing.T) *Association {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return New(Config{
		ServerName: "here", Logger: slog.New(slog.DiscardHandler), ConnectionsPerKey: 1,
		Fabrics: func() []wire.AddressBlock { return []wire.AddressBlock{{Name: "iwarp"}} },
		Go:      func(f func()) bool { go f(); return true }, Closing: ctx.Done(),
	})
}

// negotiate returns the keys of a negotiation.
func negotiate(t *testing.T, a *Association, sess *fakeSession) (clientKey, serverKey [16]byte) {
	t.Helper()
	rand.Read(clientKey[:])
	return clientKey, negotiateWith(t, a, sess, clientKey)
}

func negotiateWith(t *testing.T, a *Association, sess *fakeSession, clientKey [16]byte) (serverKey [16]byte) {
	t.Helper()
	msg, err := (&wire.NegotiateRequest{ClientName: "there", Key: clientKey, ResponseLength: 0xFFFF}).AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := a.Negotiate(t.Context(), sess, sess.app, msg, 0xFFFF)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := wire.DecodeNegotiateResponse(out)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Key
}

// here is the binding of the connection of check.
var here = [wire.BindingSize]byte{1, 2, 3}

// check checks an AUTH of a client that knows the keys.
func check(t *testing.T, a *Association, sess *fakeSession, clientKey, serverKey [16]byte) (*Client, error) {
	t.Helper()
	var nonce [16]byte
	rand.Read(nonce[:])
	p := wire.AuthParams{
		RevID: wire.RevID, Endian: 8, PageSize: 4096, MaxRdmaWindowSize: 64 << 10, MaxSendBufferSize: 8240,
		MaxRecvBufferSize: 16, HeaderSize: wire.HeaderSize, Credits: 1,
		Key: &serverKey, Signature: new([16]byte), Keyed: &wire.KeyedOption{Nonce: nonce}, Binding: &here,
	}
	h := wire.Header{Opcode: wire.OpAuth, Flags: wire.FlagInterrupt, Marker: wire.Marker, Cookie: 1}
	params := p.AppendTo(nil)
	h.Length = uint32(wire.HeaderSize + len(params))
	authKey := wire.DeriveAuthKey(sess.app[:], clientKey, serverKey)
	if err := wire.SignKeyed(params, authKey, wire.RoleClient, h.AppendTo(nil), nil); err != nil {
		t.Fatal(err)
	}
	if err := wire.SignMD5(params); err != nil {
		t.Fatal(err)
	}
	return a.Check(h, params, here)
}

// A pair of keys ends when it is not used for a minute, and lives on once it was used.
//
// Source: [OP-42]
func TestUnusedKeysExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, sess := newTestAssociation(t), newSession()
		usedClient, usedServer := negotiate(t, a, sess)
		client, server := negotiate(t, a, sess)
		used, err := check(t, a, sess, usedClient, usedServer)
		if err == nil {
			err = a.Admit(used, newConn())
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(unusedKeyLife)
		if _, err := check(t, a, sess, client, server); err != nil {
			t.Errorf("after %v: %v", unusedKeyLife, err)
		}
		time.Sleep(time.Nanosecond)
		if _, err := check(t, a, sess, client, server); !errors.Is(err, errUnknownKey) {
			t.Errorf("later: %v", err)
		}
		if _, err := check(t, a, sess, usedClient, usedServer); err != nil {
			t.Errorf("a used pair: %v", err)
		}
		close(sess.done)
	})
}

// A session has a bounded number of pairs: the oldest unused one makes way, and without one a
// negotiation is refused.
//
// Source: [OP-42]
func TestPairsPerSessionAreBounded(t *testing.T) {
	a, sess := newTestAssociation(t), newSession()
	for range 3 * pairsPerLineage {
		negotiate(t, a, sess)
	}
	if n := len(a.keys.pairs); n != pairsPerLineage {
		t.Errorf("%d pairs", n)
	}
	var first [2][16]byte
	for i := range pairsPerLineage {
		client, server := negotiate(t, a, sess)
		if i == 0 {
			first = [2][16]byte{client, server}
		}
		c, err := check(t, a, sess, client, server)
		if err == nil {
			err = a.Admit(c, newConn())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	msg, err := (&wire.NegotiateRequest{ResponseLength: 0xFFFF}).AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Negotiate(t.Context(), sess, sess.app, msg, 0xFFFF); !errors.Is(err, errTooManyPairs) {
		t.Errorf("one more: %v", err)
	}
	if _, err := check(t, a, sess, first[0], first[1]); err != nil {
		t.Errorf("the first of those in use: %v", err)
	}
	close(sess.done)
}

// The connections of a pair are bounded, and one that leaves makes room.
//
// Source: [OP-42b]
func TestConnectionsPerKeyAreBounded(t *testing.T) {
	a, sess := newTestAssociation(t), newSession()
	client, server := negotiate(t, a, sess)
	admit := func(conn Conn) (*Client, error) {
		c, err := check(t, a, sess, client, server)
		if err != nil {
			t.Fatal(err)
		}
		return c, a.Admit(c, conn)
	}
	first := newConn()
	c, err := admit(first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admit(newConn()); !errors.Is(err, errPairFull) {
		t.Errorf("one more: %v", err)
	}
	a.Leave(c, first)
	if _, err := admit(newConn()); err != nil {
		t.Errorf("after one left: %v", err)
	}
	close(sess.done)
}

// A second NEGOTIATE with the same client key fences the connections of the first.
//
// Source: [OP-112]
func TestNegotiateFencesOwnConnections(t *testing.T) {
	a, sess, other := newTestAssociation(t), newSession(), newSession()
	client, server := negotiate(t, a, sess)
	kept, keptServer := negotiate(t, a, sess)
	fenced, stays := newConn(), newConn()
	for conn, keys := range map[*fakeConn][2][16]byte{fenced: {client, server}, stays: {kept, keptServer}} {
		c, err := check(t, a, sess, keys[0], keys[1])
		if err == nil {
			err = a.Admit(c, conn)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	negotiateWith(t, a, other, client) // of another session: fences nothing
	if len(fenced.causes) != 0 {
		t.Error("another session fenced a connection")
	}
	negotiateWith(t, a, sess, client)
	if len(fenced.causes) != 1 || fenced.causes[0] != "fenced" || len(stays.causes) != 0 {
		t.Errorf("ended by %q, and the other by %q", fenced.causes, stays.causes)
	}
	if _, err := check(t, a, sess, client, server); !errors.Is(err, errUnknownKey) {
		t.Errorf("the old key: %v", err)
	}
	close(sess.done)
	close(other.done)
}

// The end of a session ends its keys and its connections.
//
// Source: [OP-42]
func TestSessionEndEndsConnections(t *testing.T) {
	for _, left := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a, sess := newTestAssociation(t), newSession()
			client, server := negotiate(t, a, sess)
			conn := newConn()
			c, err := check(t, a, sess, client, server)
			if err == nil {
				err = a.Admit(c, conn)
			}
			if err != nil {
				t.Fatal(err)
			}
			sess.left = left
			close(sess.done)
			synctest.Wait()
			want := map[bool]string{false: "session ended", true: "logged off"}[left]
			if len(conn.causes) != 1 || conn.causes[0] != want {
				t.Errorf("ended by %q, want %q", conn.causes, want)
			}
			if len(a.keys.pairs) != 0 || len(a.keys.byLineage) != 0 {
				t.Errorf("%d pairs of %d lineages are left", len(a.keys.pairs), len(a.keys.byLineage))
			}
		})
	}
}
