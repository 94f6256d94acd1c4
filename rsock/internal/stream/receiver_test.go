package stream

import (
	"errors"
	"testing"
)

// holdPoller makes the test the poller of a stream, until the returned function is called.
func holdPoller(s *Stream) (pass func()) {
	var w waiter
	w.init()
	if !s.c.progress.Park(&w.Waiter, true) {
		s.c.progress.Claim()
		<-w.C()
	}
	return s.c.progress.Pass
}

// TestNoDataIsKeptAfterViolation has a message that violates the protocol and data behind it
// arrive with one poll: the data is not kept.
//
// Source: [WSD §4]
func TestNoDataIsKeptAfterViolation(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		s, r := greeted(t, f, Config{}, true)
		pass := holdPoller(s)
		wrong := Message{Type: TypeData, Sequence: r.sequence + 5, Payload: []byte("x")}
		r.sendBytes(wrong.AppendTo(nil))
		r.sendMessage(Message{Type: TypeData, Payload: []byte("x")})
		until(t, "the violation is noticed", func() bool { s.rx.poll(); return s.c.failure() != nil })
		pass()
		if err := s.c.failure(); !errors.Is(err, ErrProtocol) {
			t.Errorf("the stream ended with %v", err)
		}
		s.rx.mu.Lock()
		defer s.rx.mu.Unlock()
		if n := s.rx.input.items.len(); n > 0 {
			t.Errorf("%d messages are kept", n)
		}
	})
}
