package stream

import (
	"errors"
	"testing"

	"lwio/rsock/internal/verbs"
)

// TestOffersStayWithinPeerLimit writes to a peer that takes one unfinished offer: the next
// offer comes after the end of the first.
//
// Source: [WSD §5.2]
func TestOffersStayWithinPeerLimit(t *testing.T) {
	onFabrics(t, func(t *testing.T, f fabric) {
		announced := Negotiation{Buffers: rawBuffers, BufferSize: rawSize, Offers: 1, CanRead: true}
		s, r := greetedBy(t, f, Config{}, Message{Type: TypeNegotiate, Credits: rawBuffers, Payload: announced.AppendTo(nil)})
		written := make(chan error, 1)
		go func() {
			_, err := s.Write(pattern(2 * stageSize))
			written <- err
		}()
		for id := uint32(1); id <= 2; id++ {
			offer := r.receive(TypeOffer)
			if offer.Transfer != id {
				t.Fatalf("offer %d comes as number %d", offer.Transfer, id)
			}
			r.quiet("although the peer takes no further offer")
			r.sendMessage(Message{Type: TypeDone, Flags: FlagYours, Transfer: id, Total: offer.Total - uint64(len(offer.Payload))})
			if total := offer.Total; id == 1 && total == 2*stageSize {
				break // all data in one offer
			}
		}
		s.c.fail(errClosed) // the rest does not matter
		<-written
	})
}

// TestViolationsOfOffersEndStream violates the rules about the offers of a stream.
func TestViolationsOfOffersEndStream(t *testing.T) {
	for name, c := range map[string]struct {
		canRead bool
		violate func(r *raw, offer Message)
	}{
		"done too little": {true, func(r *raw, m Message) {
			r.sendMessage(Message{Type: TypeDone, Flags: FlagYours, Transfer: 1, Total: 1})
		}},
		"done too much": {true, func(r *raw, m Message) {
			r.sendMessage(Message{Type: TypeDone, Flags: FlagYours, Transfer: 1, Total: m.Total})
		}},
		"done twice": {true, func(r *raw, m Message) {
			done := Message{Type: TypeDone, Flags: FlagYours, Transfer: 1, Total: m.Total - uint64(len(m.Payload))}
			r.sendMessage(done)
			r.sendMessage(done)
		}},
		"ready from a side that reads": {true, func(r *raw, m Message) {
			r.sendMessage(Message{Type: TypeReady, Flags: FlagYours, Transfer: 1, Total: 10, Descriptor: r.expose(10, verbs.MemWrite)})
		}},
		"ready for too much": {false, func(r *raw, m Message) {
			r.sendMessage(Message{Type: TypeReady, Flags: FlagYours, Transfer: 1, Total: m.Total, Descriptor: r.expose(int(m.Total), verbs.MemWrite)})
		}},
		"ready with too little memory": {false, func(r *raw, m Message) {
			r.sendMessage(Message{Type: TypeReady, Flags: FlagYours, Transfer: 1, Total: 1000, Descriptor: r.expose(100, verbs.MemWrite)})
		}},
		"ready with nonsense": {false, func(r *raw, m Message) {
			r.sendMessage(Message{Type: TypeReady, Flags: FlagYours, Transfer: 1, Total: 1000, Descriptor: pattern(24)})
		}},
		"ready to be read": {false, func(r *raw, m Message) {
			r.sendMessage(Message{Type: TypeReady, Flags: FlagYours, Transfer: 1, Total: 100, Descriptor: r.expose(100, verbs.MemRead)})
		}},
		"fail after all": {true, func(r *raw, m Message) {
			r.sendMessage(Message{Type: TypeFail, Flags: FlagYours, Transfer: 1, Status: FailNoBuffers, Total: m.Total})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			onFabrics(t, func(t *testing.T, f fabric) {
				s, r := greeted(t, f, Config{}, c.canRead)
				wrote := make(chan error, 1)
				go func() {
					_, err := s.Write(pattern(100000))
					wrote <- err
				}()
				c.violate(r, r.receive(TypeOffer))
				<-s.c.over
				if err := s.c.failure(); !errors.Is(err, ErrProtocol) {
					t.Errorf("the stream ended with %v", err)
				}
				<-wrote // it returns, early or with an error
			})
		})
	}
}
