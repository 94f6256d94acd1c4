package stream

import (
	"io"
	"runtime"
	"testing"
	"time"
)

// books are what a side knows of the credits that the peer has of it.
func (s *Stream) books() (c credits, spent int) {
	s.tx.mu.Lock()
	defer s.tx.mu.Unlock()
	return s.tx.credits, len(s.tx.delayed)
}

// until waits for something that must happen.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("never: ", what)
		}
	}
}

// exact writes so many bytes in messages of one, or reads so many if n is negative.
func exact(t *testing.T, s *Stream, n int) {
	t.Helper()
	p := make([]byte, 1)
	for ; n > 0; n-- {
		if _, err := s.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	for ; n < 0; n++ {
		if _, err := io.ReadFull(s, p); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDelay: the receive of a message that a Read has got is posted again after the answer
// was sent, with the next look, and no credit goes back before. Where the answer needs the
// credit, it is posted before that. Nobody but the test looks.
//
// Source: [WSD §4 credit rules]
func TestDelay(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, setup{})
		var w waiter
		w.init()
		if !b.c.poller.take(&w) {
			b.c.poller.claim()
			<-w.token
		}
		defer b.c.poller.pass()
		check := func(when string, late, owed int) {
			t.Helper()
			c, spent := b.books()
			if c.delayed != late || spent != late || c.ungranted != owed {
				t.Errorf("%s: %d late, %d to be posted, %d owed; want %d late, %d owed", when, c.delayed, spent, c.ungranted, late, owed)
			}
			if sum := c.peerAvailable + c.ungranted + c.unread + c.delayed; sum != c.window {
				t.Errorf("%s: %d of %d buffers are accounted for", when, sum, c.window)
			}
		}
		idle := func() bool {
			b.rx.poll()
			b.tx.mu.Lock()
			defer b.tx.mu.Unlock()
			return len(b.tx.free) == len(b.tx.slots)
		}
		receive := func() {
			t.Helper()
			until(t, "what b has sent is over", idle)
			b.rx.mu.Lock()
			b.rx.input.target, b.rx.input.filled = make([]byte, 1), 0
			b.rx.mu.Unlock()
			exact(t, a, 1)
			until(t, "the message arrives", func() bool { return b.rx.poll() > 0 })
		}
		exact(t, b, 1) // with what is owed from the negotiation
		exact(t, a, -1)
		check("at first", 0, 0)
		for range 3 * DefaultReceiveBuffers {
			receive()
			check("a message has come", 1, 0)
			exact(t, b, 1)
			check("an answer has gone", 1, 0)
			b.rx.poll()
			check("a look", 0, 1)
			exact(t, b, 1)
			check("a second answer", 0, 0)
			exact(t, a, -2)
		}
		receive()
		has, _ := b.books()
		own := func(n int) {
			b.tx.mu.Lock()
			defer b.tx.mu.Unlock()
			b.tx.credits.available = n
		}
		own(1)
		if !b.tx.trySend(&Message{Type: TypeCredit}, grantClass) {
			t.Error("the last credit does not grant what it could")
		}
		check("a grant", 0, 0)
		own(has.available - 1)
	})
}
