package verbs

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"lwio/rdma"
)

// TestConnectDistinguishesRefusalFromNoListener connects to a listener that refuses, and
// without a listener. The errors differ, because TCP may succeed only without an RDMA
// listener.
//
// Source: [WSD §3.1], [WSD §3.2]
func TestConnectDistinguishesRefusalFromNoListener(t *testing.T) {
	onAll(t, func(t *testing.T, f fabric) {
		v := service(t, f.make(), nil)
		l, addr := listen(t, f, v)
		s, err := v.Socket(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Connect(t.Context(), addr, nil)
		fails(t, "no receive is posted", err, EINVAL)
		var o Overlapped
		fails(t, "send", s.Send(&o, nil, 0), ENOTCONN)
		fails(t, "disconnect", s.Disconnect(t.Context()), ENOTCONN)
		_, err = s.PeerAddr()
		fails(t, "peer", err, ENOTCONN)
		if s.connector() != nil || s.Err() != nil {
			t.Error("the end of no connection")
		}
		e := newEnd(t, s, 64)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = s.Connect(ctx, addr, nil)
		fails(t, "ended context", err, ETIMEDOUT)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("ended context: %v", err)
		}
		_, err = s.Connect(t.Context(), addr, make([]byte, 1<<20))
		fails(t, "private data", err, EINVAL)

		answered := make(chan error, 1)
		go func() {
			in, err := l.Accept(t.Context())
			if err == nil {
				err = in.Reject([]byte("no"))
			}
			answered <- err
		}()
		reply, err := s.Connect(t.Context(), addr, nil)
		fails(t, "rejected", err, ECONNREFUSED)
		if !bytes.HasPrefix(reply, []byte("no")) {
			t.Errorf("private data of a rejection: %q", reply)
		}
		if err := <-answered; err != nil {
			t.Error("reject:", err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		_, err = s.Connect(t.Context(), addr, nil)
		fails(t, "no listener", err, ETIMEDOUT)
		fails(t, "bind twice", errors.Join(s.Bind(rdma.Addr{}), s.Bind(rdma.Addr{})), 0)
		if e.hole.isDone() {
			t.Error("the receive has ended")
		}
	})
}

// TestSocketConnectsOnce accepts only after a receive is posted, and connects a socket only
// once.
//
// Source: [WSD §3.3]
func TestSocketConnectsOnce(t *testing.T) {
	onAll(t, func(t *testing.T, f fabric) {
		v := service(t, f.make(), nil)
		l, addr := listen(t, f, v)
		defer l.Close()
		s, err := v.Socket(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		newEnd(t, s, 8)
		done := make(chan error, 1)
		go func() { _, err := s.Connect(t.Context(), addr, nil); done <- err }()
		in, err := l.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.LocalAddr(); err != nil {
			t.Error(err)
		}
		_, err = in.Accept(t.Context(), nil)
		fails(t, "accept without a receive", err, EINVAL)
		if err := <-done; err == nil {
			t.Error("connected without an accept")
		}

		a, b := pairOn(t, f, v, v, 8)
		_, err = a.Connect(t.Context(), addr, nil)
		fails(t, "connect twice", err, EISCONN)
		fails(t, "bind", a.Bind(rdma.Addr{}), EINVAL)
		peer, err1 := a.PeerAddr()
		local, err2 := b.LocalAddr()
		if peer != local || errors.Join(err1, err2) != nil || peer == (rdma.Addr{}) {
			t.Errorf("the peer is %v, and says %v: %v", peer, local, errors.Join(err1, err2))
		}
		if v.Name() != f.name || v.Info().MaxTransferLength == 0 {
			t.Errorf("service %s", v.Name())
		}
		if other, e := v.Listen(t.Context(), addr, 0); e == nil {
			t.Error("two listeners have one address", other.Close())
		} else {
			fails(t, "address in use", e, EADDRINUSE)
		}
	})
}
