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
	if p.onPost != nil {
		p.onPost(reqs)
	}
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
	c, sealed := newSealedFake(t, 2*messages, base.Interrupt)
	c.send.reason = func(err error) error { return err }
	// A record without data counts 48 + 32 + 64 bytes.
	c.sealing.out = seal.NewSender([seal.KeySize]byte{1}, messages*144)
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

// newSealedFake makes the components of a sealed connection with n entries, and the opener of the
// messages that the client seals.
func newSealedFake(t *testing.T, n int, mode base.CompletionMode) (*Conn, *sealedPair) {
	t.Helper()
	key := [seal.KeySize]byte{1}
	c, pair := newFakeOf(n, ConnConfig{Mode: mode, Seal: true}, 0)
	sealed := &sealedPair{pair, seal.NewReceiver(key)}
	c.send.qp = sealed
	s := &c.sealing
	s.out, s.in, s.size = seal.NewSender(key, seal.MaxSealed), seal.NewReceiver(key), sealedHeader
	s.mr = &fakeRegion{memory: make([]byte, n*s.size)}
	return c, sealed
}

// A call on a sealed connection busy-polls for the message that answers it. The word where plain
// connections have the status block proves nothing.
//
// Source: [OP-114b]
func TestPolledRequestOfSealedConnectionIsAnsweredByMessage(t *testing.T) {
	c, _ := newSealedFake(t, 4, base.Polling)
	o := postRead(t, c, 1)
	s := o.request
	if c.status.polled.empty() || !o.polled {
		t.Error("the call does not busy-poll")
	}
	s.block.Store(wire.IOStatusBlock{Information: 1}.Uint64())
	if _, own := c.answers.takeOwn(&o.Ticket); own || c.answers.scan() != 0 || c.answers.look(s, &delivery{r: &c.answers}) || o.answers != 0 {
		t.Fatal("a word has answered a request of a sealed connection")
	}
	if c.credits.arm() {
		t.Error("the client asks for a wake-up, which the message is")
	}
	answer(t, c, wire.StatusResponse{Cookie: s.cookie(), Information: 1})
	if o.answers != 1 || !c.status.polled.empty() {
		t.Errorf("%d answers", o.answers)
	}
}

// A sealed connection with completion by interrupt never busy-polls.
func TestSealedConnectionWithInterruptDoesNotPoll(t *testing.T) {
	c, _ := newSealedFake(t, 4, base.Interrupt)
	if o := postRead(t, c, 1); o.polled || !c.status.polled.empty() {
		t.Error("the call busy-polls")
	}
}

// A connection that ends before its sealed messages have memory is closed without an announcement.
//
// Source: [OP-114b]
func TestCloseBeforeSealedMessagesHaveMemory(t *testing.T) {
	c, sealed := newSealedFake(t, 2, base.Interrupt)
	c.sealing.mr = nil // AUTH is sent, and not answered
	c.send.announceEnd()
	if sealed.posts != 0 || freeRequestsOf(c) != 2 {
		t.Errorf("%d messages are posted, %d credits are free", sealed.posts, freeRequestsOf(c))
	}
	c, sealed = newSealedFake(t, 2, base.Interrupt)
	c.sealing.ready = true
	if c.send.announceEnd(); sealed.posts != 1 {
		t.Errorf("%d messages announce the end", sealed.posts)
	}
}

// dataOperation is an operation whose message has data of the caller.
type dataOperation struct {
	fakeOperation
	memory []byte
}

func (o *dataOperation) Message(_ *Request, h *wire.Header, data *Payload) {
	*h, *data = wire.NewRegister(), Payload{Copied: o.memory}
}

// TakeBack on a sealed connection returns when no goroutine reads the memory of the caller any more, and
// that memory is not sealed later.
//
// Source: [OP-113], [OP-114b]
func TestMemoryIsNotSealedAfterTakeBack(t *testing.T) {
	c, pair := newSealedFake(t, 4, base.Interrupt)
	c.send.reason = func(err error) error { return err }
	c.sealing.size += 100
	c.sealing.mr = &fakeRegion{memory: make([]byte, 4*c.sealing.size)}
	posting, goOn := make(chan struct{}), make(chan struct{})
	pair.onPost = func([]rdma.Request) {
		pair.onPost = nil
		close(posting)
		<-goOn
	}
	posted := make(chan struct{})
	go func() {
		defer close(posted)
		c.send.postDetached(c.table.free.take(), kindControl, func() (wire.Header, bool) { return wire.NewCancel(1), true })
	}()
	<-posting
	o := &dataOperation{memory: make([]byte, 50)}
	o.Owner, o.To = o, new(Arrivals)
	set := c.TakeCredits(1)
	o.Prepare(c.NextCredit(&set), IO{Bytes: 50})
	c.Post([]*Ticket{&o.Ticket}, false) // the other goroutine posts it
	c.Fail(errFake)
	back := make(chan bool, 1)
	go func() {
		_, ok := c.TakeBack(&o.Ticket)
		clear(o.memory) // the race detector sees a read of the memory after this
		back <- ok
	}()
	other, _ := newFake(1, base.Interrupt, 0) // does not end
	waitFor(t, other, func() bool { return isRunning("awaitPost") || len(back) > 0 })
	if len(back) > 0 {
		t.Error("TakeBack does not wait for the post")
	}
	close(goOn)
	if <-posted; !<-back || pair.posts != 1 {
		t.Errorf("%d messages are posted", pair.posts)
	}
}
