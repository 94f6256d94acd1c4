package stream

import (
	"errors"
	"testing"
)

// looseInput is an input of a connection without a socket, which sends no message.
func looseInput() (*input, *connection) {
	c := &connection{}
	in := &input{c: c}
	in.items.init(4)
	return in, c
}

// TestInputFillsTargetFirst copies data to the memory of a Read that waits, and keeps the
// rest for the next Read.
//
// Source: [WSD §5.1]
func TestInputFillsTargetFirst(t *testing.T) {
	in, c := looseInput()
	in.target = make([]byte, 4)
	for _, part := range []struct {
		data string
		kept bool
	}{{"abc", false}, {"def", true}, {"g", true}} {
		kept, err := in.takeData([]byte(part.data))
		if err != nil || kept != part.kept {
			t.Errorf("%q: kept %t, error %v", part.data, kept, err)
		}
	}
	if string(in.target) != "abcd" || in.filled != 4 || !c.readWait.flag.Load() {
		t.Errorf("target %q, %d filled, signaled %t", in.target, in.filled, c.readWait.flag.Load())
	}
	if in.items.len() != 2 || string(in.items.at(0).data) != "ef" || string(in.items.at(1).data) != "g" {
		t.Errorf("%d items kept", in.items.len())
	}
}

// TestInputAfterEndOfStream refuses data and offers of a peer that has ended its stream.
func TestInputAfterEndOfStream(t *testing.T) {
	in, _ := looseInput()
	in.eof = true
	if _, err := in.takeData([]byte("a")); !errors.Is(err, ErrProtocol) {
		t.Errorf("data: %v", err)
	}
	if _, err := in.takeOffer(&Message{Type: TypeOffer, Transfer: 1, Total: 1}); !errors.Is(err, ErrProtocol) {
		t.Errorf("offer: %v", err)
	}
}

// TestDiscardedInputKeepsNoData drops data after CloseRead.
func TestDiscardedInputKeepsNoData(t *testing.T) {
	in, _ := looseInput()
	in.discard = true
	if kept, err := in.takeData([]byte("a")); kept || err != nil || in.items.len() != 0 {
		t.Errorf("kept %t, error %v, %d items", kept, err, in.items.len())
	}
}

// TestIncomingLeftSubtractsFetches counts the bytes of an offer that are neither fetched nor
// in flight.
func TestIncomingLeftSubtractsFetches(t *testing.T) {
	offer := incoming{rest: 100, inFlight: 30}
	if n := offer.left(); n != 70 {
		t.Errorf("%d bytes left, want 70", n)
	}
	offer.withdrawn = true
	if n := offer.left(); n != 0 {
		t.Errorf("%d bytes left of a withdrawn offer", n)
	}
}
