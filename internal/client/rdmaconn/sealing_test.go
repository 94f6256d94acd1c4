package rdmaconn

import (
	"bytes"
	"errors"
	"testing"

	"lwio/internal/client/base"
	"lwio/internal/seal"
	"lwio/internal/wire"
	"lwio/rdma"
)

// sealedPair is a fakePair of a sealed connection. It opens the messages in the order of their posts.
type sealedPair struct {
	*fakePair
	opener *seal.Receiver
}

func (p *sealedPair) Post(reqs []rdma.Request) (int, error) {
	for _, r := range reqs {
		g := r.SGL[0]
		record := bytes.Clone(g.Region.Bytes()[g.Offset:][:sealedHeader])
		if err := p.opener.Record(record, new(seal.Descriptor)); err != nil {
			return 0, err
		}
		p.posts++
	}
	return len(reqs), nil
}

// A client whose key is used up posts nothing more, and ends the connection.
//
// Source: [OP-114b]
func TestUsedUpKeyEndsConnection(t *testing.T) {
	const messages = 5
	key := [seal.KeySize]byte{1}
	c, pair := newFake(2*messages, base.Interrupt, 0)
	sealed := &sealedPair{pair, seal.NewReceiver(key)}
	c.send.qp, c.send.reason = sealed, func(err error) error { return err }
	s := &c.sealing
	// A record without data counts 48 + 32 + 64 bytes.
	s.out, s.in, s.size = seal.NewSender(key, messages*144), seal.NewReceiver(key), sealedHeader
	s.mr = &fakeRegion{memory: make([]byte, 2*messages*s.size)}
	for i := range messages + 1 {
		if c.IsDown() {
			t.Fatalf("%d messages: %v", i, c.Err())
		}
		c.send.postDetached(c.table.free.take(), kindControl, func() (wire.Header, bool) { return wire.NewCancel(1), true })
	}
	if sealed.posts != messages || !errors.Is(c.Err(), seal.ErrUsedUp) {
		t.Errorf("%d messages are posted, %v", sealed.posts, c.Err())
	}
}
