package stream

import (
	"io"
	"runtime"
	"testing"
	"time"
)

// books are what a side knows of the credits that the peer has of it.
func (s *Stream) books() (c credits, spent int) {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	return s.out.credits, len(s.out.spent)
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
		if !b.baton.take(&w) {
			b.baton.claim()
			<-w.token
		}
		defer b.baton.pass()
		check := func(when string, late, owed int) {
			t.Helper()
			c, spent := b.books()
			if c.late != late || spent != late || c.owed != owed {
				t.Errorf("%s: %d late, %d to be posted, %d owed; want %d late, %d owed", when, c.late, spent, c.owed, late, owed)
			}
			if sum := c.peer + c.owed + c.held + c.late; sum != c.window {
				t.Errorf("%s: %d of %d buffers are accounted for", when, sum, c.window)
			}
		}
		idle := func() bool {
			b.poll()
			b.out.mu.Lock()
			defer b.out.mu.Unlock()
			return len(b.out.free) == len(b.out.slots)
		}
		receive := func() {
			t.Helper()
			until(t, "what b has sent is over", idle)
			b.mu.Lock()
			b.in.dst, b.in.got = make([]byte, 1), 0
			b.mu.Unlock()
			exact(t, a, 1)
			until(t, "the message arrives", func() bool { return b.poll() > 0 })
		}
		exact(t, b, 1) // with what is owed from the negotiation
		exact(t, a, -1)
		check("at first", 0, 0)
		for range 3 * DefaultReceiveBuffers {
			receive()
			check("a message has come", 1, 0)
			exact(t, b, 1)
			check("an answer has gone", 1, 0)
			b.poll()
			check("a look", 0, 1)
			exact(t, b, 1)
			check("a second answer", 0, 0)
			exact(t, a, -2)
		}
		receive()
		has, _ := b.books()
		own := func(n int) {
			b.out.mu.Lock()
			defer b.out.mu.Unlock()
			b.out.credits.own = n
		}
		own(1)
		if !b.out.trySend(&Message{Type: TypeCredit}, granting) {
			t.Error("the last credit does not grant what it could")
		}
		check("a grant", 0, 0)
		own(has.own - 1)
	})
}
