package stream

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"lwio/rsock/internal/verbs"
)

// outcome waits for the end of a stream that is read.
func outcome(s *Stream) error {
	_, err := io.Copy(io.Discard, onlyReader{s})
	return err
}

type onlyReader struct{ io.Reader }

// TestViolationsEndStream violates each rule of an established session: the stream ends with
// ErrProtocol, and the connection ends.
//
// Source: [WSD §4], [WSD §5]
func TestViolationsEndStream(t *testing.T) {
	data := func(n int) Message { return Message{Type: TypeData, Payload: make([]byte, n)} }
	for name, c := range map[string]struct {
		cfg     Config
		want    error
		violate func(r *raw, s *Stream)
	}{
		"short message": {violate: func(r *raw, _ *Stream) { r.sendBytes(make([]byte, 10)) }},
		"empty message": {violate: func(r *raw, _ *Stream) { r.sendBytes(nil) }},
		"not a message": {violate: func(r *raw, _ *Stream) { r.sendBytes(pattern(500)) }},
		"sequence":      {violate: func(r *raw, _ *Stream) { r.sequence += 5; r.sendMessage(data(1)) }},
		"sequence again": {violate: func(r *raw, _ *Stream) {
			r.sendMessage(data(1))
			r.sequence--
			r.sendMessage(data(1))
		}},
		"second hello": {violate: func(r *raw, _ *Stream) { r.sendMessage(hello(true)) }},
		"hello of the other": {violate: func(r *raw, _ *Stream) {
			m := hello(true)
			m.Type = TypeNegotiateAck
			r.sendMessage(m)
		}},
		"suspend":     {want: ErrSuspend, violate: func(r *raw, _ *Stream) { r.sendMessage(Message{Type: TypeSuspend}) }},
		"suspend-ack": {want: ErrSuspend, violate: func(r *raw, _ *Stream) { r.sendMessage(Message{Type: TypeSuspendAck}) }},
		"resume":      {want: ErrSuspend, violate: func(r *raw, _ *Stream) { r.sendMessage(Message{Type: TypeResume}) }},
		"too many credits": {violate: func(r *raw, _ *Stream) {
			r.sendMessage(Message{Type: TypeCredit, Credits: DefaultReceiveBuffers + 1})
			r.sendMessage(Message{Type: TypeCredit, Credits: rawBuffers})
		}},
		"data after the end": {violate: func(r *raw, _ *Stream) { r.sendMessage(Message{Type: TypeShutdown}); r.sendMessage(data(1)) }},
		"urgent after the end": {violate: func(r *raw, _ *Stream) {
			r.sendMessage(Message{Type: TypeShutdown})
			r.sendMessage(Message{Type: TypeUrgent, Payload: []byte{1}})
		}},
		"two ends": {violate: func(r *raw, _ *Stream) {
			r.sendMessage(Message{Type: TypeShutdown})
			r.sendMessage(Message{Type: TypeShutdown})
		}},
		"closing twice": {violate: func(r *raw, _ *Stream) {
			r.sendMessage(Message{Type: TypeShutdown, Flags: FlagClosing})
			r.sendMessage(Message{Type: TypeShutdown, Flags: FlagClosing})
		}},
		"answer without a close": {violate: func(r *raw, _ *Stream) { r.sendMessage(Message{Type: TypeShutdown, Flags: FlagTaken}) }},
		"done for nothing": {violate: func(r *raw, _ *Stream) {
			r.sendMessage(Message{Type: TypeDone, Flags: FlagYours, Transfer: 1, Total: 1})
		}},
		"written without a ready": {violate: func(r *raw, _ *Stream) { r.sendMessage(Message{Type: TypeDone, Transfer: 1, Total: 1}) }},
		"ready for nothing": {violate: func(r *raw, _ *Stream) {
			r.sendMessage(Message{Type: TypeReady, Flags: FlagYours, Transfer: 1, Total: 1, Descriptor: []byte{1}})
		}},
		"fail for nothing": {violate: func(r *raw, _ *Stream) {
			r.sendMessage(Message{Type: TypeFail, Flags: FlagYours, Transfer: 1, Status: FailNoBuffers})
		}},
		"withdrawal of nothing": {violate: func(r *raw, _ *Stream) { r.sendMessage(Message{Type: TypeFail, Transfer: 1, Status: FailWithdrawn}) }},
		"transfer out of turn": {violate: func(r *raw, _ *Stream) {
			r.sendMessage(Message{Type: TypeOffer, Transfer: 2, Total: 100, Descriptor: r.expose(100, verbs.MemRead)})
		}},
		"transfer twice": {violate: func(r *raw, _ *Stream) {
			d := r.expose(100, verbs.MemRead)
			r.sendMessage(Message{Type: TypeOffer, Transfer: 1, Total: 100, Descriptor: d})
			r.sendMessage(Message{Type: TypeOffer, Transfer: 1, Total: 100, Descriptor: d})
		}},
		"offer without memory": {violate: func(r *raw, _ *Stream) { r.sendMessage(Message{Type: TypeOffer, Transfer: 1, Total: 100}) }},
		"descriptor for a side that cannot read": {cfg: Config{NoRead: true}, violate: func(r *raw, _ *Stream) {
			r.sendMessage(Message{Type: TypeOffer, Transfer: 1, Total: 100, Descriptor: r.expose(100, verbs.MemRead)})
		}},
		"descriptor of nothing": {violate: func(r *raw, _ *Stream) {
			r.sendMessage(Message{Type: TypeOffer, Transfer: 1, Total: 100, Descriptor: []byte("nonsense")})
		}},
		"descriptor that is too small": {violate: func(r *raw, _ *Stream) {
			r.sendMessage(Message{Type: TypeOffer, Transfer: 1, Total: 101, Descriptor: r.expose(100, verbs.MemRead)})
		}},
		"descriptor to be written": {violate: func(r *raw, _ *Stream) {
			r.sendMessage(Message{Type: TypeOffer, Transfer: 1, Total: 100, Descriptor: r.expose(100, verbs.MemWrite)})
		}},
		"huge offer": {violate: func(r *raw, _ *Stream) {
			r.sendMessage(Message{Type: TypeOffer, Transfer: 1, Total: 1 << 40, Descriptor: r.expose(100, verbs.MemRead)})
		}},
		"descriptor that is over": {want: ErrReset, violate: func(r *raw, _ *Stream) {
			d := r.expose(100, verbs.MemRead)
			if err := r.sock.DeregisterRdmaMemory(d); err != nil {
				r.tb.Error(err)
			}
			r.sendMessage(Message{Type: TypeOffer, Transfer: 1, Total: 100, Descriptor: d})
		}},
		"wrote too much": {cfg: Config{NoRead: true}, violate: func(r *raw, _ *Stream) {
			r.sendMessage(Message{Type: TypeOffer, Transfer: 1, Total: 100})
			m := r.receive(TypeReady)
			r.sendMessage(Message{Type: TypeDone, Transfer: 1, Total: m.Total + 1})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			onFabrics(t, func(t *testing.T, f fabric) {
				s, r := greeted(t, f, c.cfg, true)
				done := make(chan error, 1)
				go func() { done <- outcomeOf(s) }()
				c.violate(r, s)
				want := c.want
				if want == nil {
					want = ErrProtocol
				}
				if err := <-done; !errors.Is(err, want) {
					t.Errorf("the stream ended with %v, want %v", err, want)
				}
				r.until(func() bool { return r.sock.Err() != nil })
				if _, err := s.Write([]byte{1}); err == nil {
					t.Error("the stream can still be written")
				}
			})
		})
	}
}

// outcomeOf reads until the stream has failed. It does not stop at the end of the peer's
// stream.
func outcomeOf(s *Stream) error {
	err := outcome(s)
	if err != nil {
		return err
	}
	<-s.c.over
	return s.c.failure()
}

// TestMessagesBeyondCreditsEndStream sends more messages than the credits allow to a program
// that does not read: the stream keeps no more messages than the window.
func TestMessagesBeyondCreditsEndStream(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		s, r := greeted(t, f, Config{}, true)
		for i := 0; i < 4*DefaultReceiveBuffers && s.c.failure() == nil; i++ {
			r.sendMessage(Message{Type: TypeData, Payload: make([]byte, 1000)})
		}
		<-s.c.over
		if err := s.c.failure(); !errors.Is(err, ErrProtocol) && !errors.Is(err, ErrReset) {
			t.Errorf("the stream ended with %v", err)
		}
		s.rx.mu.Lock()
		kept := s.rx.input.items.len()
		s.rx.mu.Unlock()
		if kept > DefaultReceiveBuffers+1 {
			t.Errorf("%d messages are kept", kept)
		}
	})
}

// TestOffersBeyondLimitEndStream sends more offers than may be unfinished.
func TestOffersBeyondLimitEndStream(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		s, r := greeted(t, f, Config{}, true)
		d := r.expose(100, verbs.MemRead)
		for i := range uint32(maxIncoming + 1) {
			r.sendMessage(Message{Type: TypeOffer, Transfer: i + 1, Total: 100, Descriptor: d})
		}
		<-s.c.over
		if err := s.c.failure(); !errors.Is(err, ErrProtocol) {
			t.Errorf("the stream ended with %v", err)
		}
	})
}

// TestInvalidNegotiationIsRefused begins with an invalid first message, or with none.
//
// Source: [WSD §3.3]
func TestInvalidNegotiationIsRefused(t *testing.T) {
	first := hello(true)
	for name, b := range map[string][]byte{
		"nothing":      nil,
		"data":         (&Message{Type: TypeData, Payload: []byte{1}}).AppendTo(nil),
		"nonsense":     pattern(100),
		"the other's":  (&Message{Type: TypeNegotiateAck, Credits: rawBuffers, Payload: first.Payload}).AppendTo(nil),
		"wrong credit": (&Message{Type: TypeNegotiate, Credits: rawBuffers - 1, Payload: first.Payload}).AppendTo(nil),
		"short":        (&Message{Type: TypeNegotiate, Credits: rawBuffers, Payload: first.Payload[:8]}).AppendTo(nil),
	} {
		t.Run(name, func(t *testing.T) {
			onFabrics(t, func(t *testing.T, f fabric) {
				s, r := against(t, f, Config{})
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if b == nil {
					ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
					defer cancel()
				} else {
					r.sendBytes(b)
				}
				err := s.Start(ctx, false)
				want := ErrProtocol
				if b == nil {
					want = context.DeadlineExceeded
				}
				if !errors.Is(err, ErrNegotiation) || !errors.Is(err, want) {
					t.Errorf("Start: %v, want %v", err, want)
				}
			})
		})
	}
}
