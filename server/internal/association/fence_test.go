package association

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"lwio/internal/wire"
)

// busyConn is a connection that goes on after it is fenced, until it is ended.
type busyConn struct{ *fakeConn }

func (busyConn) Fence() {}

// A NEGOTIATE that fences a connection is answered when the connection has given everything back,
// and not before. The end of its context ends the wait. Then the next NEGOTIATE with the key waits,
// also after one with another key.
//
// Source: [OP-112]
func TestNegotiateWaitsForFencedConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, sess := newTestAssociation(t), newSession()
		client, server := negotiate(t, a, sess)
		conn := busyConn{newConn()}
		c, err := check(t, a, sess, client, server)
		if err == nil {
			err = a.Admit(c, conn)
		}
		if err != nil {
			t.Fatal(err)
		}
		msg, err := (&wire.NegotiateRequest{ClientName: "there", Key: client, ResponseLength: 0xFFFF}).AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		answered := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			_, err := a.Negotiate(ctx, sess, sess.app, msg, 0xFFFF)
			answered <- err
		}()
		synctest.Wait()
		if len(answered) != 0 {
			t.Fatalf("NEGOTIATE was answered, with error %v, while the connection goes on", <-answered)
		}
		cancel()
		if err := <-answered; !errors.Is(err, context.Canceled) {
			t.Errorf("after the end of the context: %v", err)
		}
		negotiate(t, a, sess)
		go func() {
			_, err := a.Negotiate(t.Context(), sess, sess.app, msg, 0xFFFF)
			answered <- err
		}()
		synctest.Wait()
		if len(answered) != 0 {
			t.Fatalf("the next NEGOTIATE was answered, with error %v, while the connection goes on", <-answered)
		}
		conn.end("over")
		if err := <-answered; err != nil {
			t.Errorf("after the end of the connection: %v", err)
		}
		close(sess.done)
	})
}
