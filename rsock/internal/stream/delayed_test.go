package stream

import (
	"io"
	"runtime"
	"testing"
	"time"
)

// creditState returns the credits of a side and its number of delayed receives.
func (s *Stream) creditState() (c credits, delayed int) {
	s.tx.mu.Lock()
	defer s.tx.mu.Unlock()
	return s.tx.credits, len(s.tx.delayed)
}

// until waits for an event that must happen.
func until(t *testing.T, event string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("never: ", event)
		}
	}
}

// exact writes n bytes in messages of one byte, or reads -n bytes if n is negative.
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

// TestReceiveIsPostedAfterAnswer reads messages. The receive of a message that completed a
// Read is posted by the poll after the answer, and its credit is not granted before. An
// answer that needs the credit posts the receive at once. Only the test polls.
//
// Source: [WSD §4 credit rules]
func TestReceiveIsPostedAfterAnswer(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		a, b := pair(t, f, setup{})
		defer holdPoller(b)()
		check := func(when string, delayed, ungranted int) {
			t.Helper()
			c, receives := b.creditState()
			if c.delayed != delayed || receives != delayed || c.ungranted != ungranted {
				t.Errorf("%s: %d delayed, %d receives, %d to be granted; want %d and %d", when, c.delayed, receives, c.ungranted, delayed, ungranted)
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
			until(t, "the messages of b are sent", idle)
			b.rx.mu.Lock()
			b.rx.input.target, b.rx.input.filled = make([]byte, 1), 0
			b.rx.mu.Unlock()
			exact(t, a, 1)
			until(t, "the message arrives", func() bool { return b.rx.poll() > 0 })
		}
		exact(t, b, 1) // which grants the credit of the negotiation
		exact(t, a, -1)
		check("at first", 0, 0)
		for range 3 * DefaultReceiveBuffers {
			receive()
			check("a message has come", 1, 0)
			exact(t, b, 1)
			check("an answer has gone", 1, 0)
			b.rx.poll()
			check("a poll", 0, 1)
			exact(t, b, 1)
			check("a second answer", 0, 0)
			exact(t, a, -2)
		}
		receive()
		has, _ := b.creditState()
		own := func(n int) {
			b.tx.mu.Lock()
			defer b.tx.mu.Unlock()
			b.tx.credits.available = n
		}
		own(1)
		if !b.tx.trySend(&Message{Type: TypeCredit}, grantClass) {
			t.Error("the last credit grants nothing")
		}
		check("a grant", 0, 0)
		own(has.available - 1)
	})
}
