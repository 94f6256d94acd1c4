package fault

import (
	"context"
	"net/netip"

	"lwio/rdma"
)

// listener wraps a listener.
type listener struct {
	p     *Provider
	inner rdma.Listener
}

var _ rdma.KnownPeersListener = (*listener)(nil)

// SetKnownPeers does nothing if the wrapped listener does not prefer known peers.
func (l *listener) SetKnownPeers(userOf func(host netip.Addr) string) {
	if k, ok := l.inner.(rdma.KnownPeersListener); ok {
		k.SetKnownPeers(userOf)
	}
}

func (l *listener) Bind(ctx context.Context, local rdma.Addr) error {
	start := l.p.start()
	err := l.inner.Bind(ctx, local)
	l.p.control(start, "bind listener", local, err)
	return err
}

func (l *listener) Listen(backlog int) error {
	start := l.p.start()
	err := l.inner.Listen(backlog)
	l.p.control(start, "listen", size(backlog), err)
	return err
}

func (l *listener) LocalAddr() (rdma.Addr, error) { return l.inner.LocalAddr() }

func (l *listener) ConnectionRequest(ctx context.Context, into rdma.Connector) error {
	start := l.p.start()
	err := l.inner.ConnectionRequest(ctx, bareConnector(into))
	l.p.control(start, "connection request", nil, err)
	return err
}

func (l *listener) Close() error { return l.p.close("listener", l.inner) }

// sharedReceiveQueue wraps a shared receive queue.
type sharedReceiveQueue struct {
	p     *Provider
	a     *adapter
	inner rdma.SharedReceiveQueue
}

var _ rdma.SharedReceiveQueue = (*sharedReceiveQueue)(nil)

func (s *sharedReceiveQueue) PostReceive(reqs []rdma.ReceiveRequest) (int, error) {
	sc := s.a.scratch()
	n, err := s.inner.PostReceive(sc.receives(reqs))
	s.a.giveBack(sc)
	s.p.noteReceives(0, reqs, n, err)
	return n, err
}

func (s *sharedReceiveQueue) Wait(ctx context.Context) error { return s.inner.Wait(ctx) }
func (s *sharedReceiveQueue) Modify(depth, threshold int) error {
	return s.inner.Modify(depth, threshold)
}
func (s *sharedReceiveQueue) Close() error { return s.p.close("shared receive queue", s.inner) }
