package stream

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// golden are messages of every kind, byte by byte: version, type, flags; sequence; credits,
// payload length; transfer; total length; descriptor length; status.
var golden = []struct {
	name string
	m    Message
	hex  string
}{
	{"negotiate", Message{Type: TypeNegotiate, Credits: 16, Payload: (&Negotiation{Buffers: 16, BufferSize: 4096, Offers: 8, CanRead: true}).AppendTo(nil)},
		"01010000 00000000 10001000 00000000 0000000000000000 00000000 00000000 10000000 00100000 08000000 01000000"},
	{"negotiate-ack", Message{Type: TypeNegotiateAck, Credits: 8, Payload: (&Negotiation{Buffers: 8, BufferSize: 256, Offers: 1}).AppendTo(nil)},
		"01020000 00000000 08001000 00000000 0000000000000000 00000000 00000000 08000000 00010000 01000000 00000000"},
	{"data", Message{Type: TypeData, Sequence: 7, Credits: 2, Payload: []byte("abc")},
		"01030000 07000000 02000300 00000000 0000000000000000 00000000 00000000 616263"},
	{"urgent", Message{Type: TypeUrgent, Sequence: 1, Payload: []byte("!")},
		"01040000 01000000 00000100 00000000 0000000000000000 00000000 00000000 21"},
	{"offer to a side that reads", Message{Type: TypeOffer, Flags: FlagBegins, Sequence: 2, Transfer: 5, Total: 70000, Descriptor: []byte{1, 2, 3}, Payload: []byte("he")},
		"01050100 02000000 00000200 05000000 7011010000000000 03000000 00000000 010203 6865"},
	{"offer to a side that does not", Message{Type: TypeOffer, Transfer: 1, Total: 1},
		"01050000 00000000 00000000 01000000 0100000000000000 00000000 00000000"},
	{"ready", Message{Type: TypeReady, Flags: FlagYours, Transfer: 5, Total: 65536, Descriptor: []byte{9}},
		"01060200 00000000 00000000 05000000 0000010000000000 01000000 00000000 09"},
	{"done by the reader", Message{Type: TypeDone, Flags: FlagYours, Transfer: 5, Total: 69998},
		"01070200 00000000 00000000 05000000 6e11010000000000 00000000 00000000"},
	{"done by the writer", Message{Type: TypeDone, Transfer: 5, Total: 65536},
		"01070000 00000000 00000000 05000000 0000010000000000 00000000 00000000"},
	{"credit", Message{Type: TypeCredit, Sequence: 0xfffffffe, Credits: 8},
		"01080000 feffffff 08000000 00000000 0000000000000000 00000000 00000000"},
	{"shutdown", Message{Type: TypeShutdown}, "01090000 00000000 00000000 00000000 0000000000000000 00000000 00000000"},
	{"closing", Message{Type: TypeShutdown, Flags: FlagClosing}, "01090400 00000000 00000000 00000000 0000000000000000 00000000 00000000"},
	{"taken", Message{Type: TypeShutdown, Flags: FlagTaken}, "01090800 00000000 00000000 00000000 0000000000000000 00000000 00000000"},
	{"suspend", Message{Type: TypeSuspend}, "010a0000 00000000 00000000 00000000 0000000000000000 00000000 00000000"},
	{"suspend-ack", Message{Type: TypeSuspendAck}, "010b0000 00000000 00000000 00000000 0000000000000000 00000000 00000000"},
	{"resume", Message{Type: TypeResume}, "010c0000 00000000 00000000 00000000 0000000000000000 00000000 00000000"},
	{"withdrawal", Message{Type: TypeFail, Transfer: 3, Status: FailWithdrawn},
		"010d0000 00000000 00000000 03000000 0000000000000000 00000000 01000000"},
	{"no memory", Message{Type: TypeFail, Flags: FlagYours, Transfer: 3, Total: 4, Status: FailNoBuffers},
		"010d0200 00000000 00000000 03000000 0400000000000000 00000000 02000000"},
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestMessageRoundTrip encodes and decodes every type. It refuses every prefix of a message,
// and a message with a byte behind it.
//
// Source: [WSD §4]
func TestMessageRoundTrip(t *testing.T) {
	for _, g := range golden {
		t.Run(g.name, func(t *testing.T) {
			want := unhex(t, g.hex)
			got := g.m.AppendTo([]byte("before"))[len("before"):]
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("encoded (-want +got):\n%s", diff)
			}
			if g.m.Size() != len(want) {
				t.Errorf("Size() = %d, want %d", g.m.Size(), len(want))
			}
			m, err := Decode(want)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(g.m, m, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("decoded (-want +got):\n%s", diff)
			}
			for n := range want {
				if _, err := Decode(want[:n]); !errors.Is(err, ErrProtocol) {
					t.Errorf("the first %d bytes: %v", n, err)
				}
			}
			if _, err := Decode(append(want, 0)); !errors.Is(err, ErrProtocol) {
				t.Errorf("a byte more: %v", err)
			}
		})
	}
}

// TestBrokenMessagesAreRefused changes one field of a valid message.
func TestBrokenMessagesAreRefused(t *testing.T) {
	message := func(name string) []byte {
		for _, g := range golden {
			if g.name == name {
				return unhex(t, g.hex)
			}
		}
		t.Fatalf("no message %q", name)
		return nil
	}
	for _, c := range []struct {
		name, of string
		at       int
		value    byte
	}{
		{"version", "data", offVersion, 2},
		{"type 0", "credit", offType, 0},
		{"type 14", "credit", offType, 14},
		{"type 255", "credit", offType, 255},
		{"flags of data", "data", offFlags, 1},
		{"unknown flag of a shutdown", "shutdown", offFlags, 0x10},
		{"closing and taken", "shutdown", offFlags, 0x0c},
		{"transfer of data", "data", offTransfer, 1},
		{"no transfer", "offer to a side that does not", offTransfer, 0},
		{"total of data", "data", offTotal, 1},
		{"offer of nothing", "offer to a side that does not", offTotal, 0},
		{"begins without a payload", "offer to a side that does not", offFlags, 1},
		{"payload that does not begin", "offer to a side that reads", offFlags, 0},
		{"ready of no memory", "done by the writer", offType, byte(TypeReady)},
		{"ready for a transfer of its sender", "ready", offFlags, 0},
		{"status of a done", "done by the writer", offStatus, 1},
		{"fail without status", "withdrawal", offStatus, 0},
		{"fail of unknown status", "withdrawal", offStatus, 3},
		{"credit of none", "credit", offCredits, 0},
		{"long descriptor", "ready", offDescriptor, MaxDescriptor + 1},
		{"huge descriptor", "ready", offDescriptor + 3, 0x80},
		{"descriptor beyond the end", "ready", offDescriptor, 2},
		{"payload beyond the end", "data", offPayload, 4},
		{"payload that ends before", "data", offPayload, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := message(c.of)
			b[c.at] = c.value
			if m, err := Decode(b); !errors.Is(err, ErrProtocol) {
				t.Errorf("decoded %+v, %v", m, err)
			}
		})
	}
	if _, err := Decode((&Message{Type: TypeOffer, Flags: FlagBegins, Transfer: 1, Total: 2, Payload: []byte("ab")}).AppendTo(nil)); !errors.Is(err, ErrProtocol) {
		t.Errorf("an offer of nothing but its payload: %v", err)
	}
}

// TestNegotiationOutsideLimitsIsRefused refuses a negotiation outside the limits.
//
// Source: [WSD §3.3]
func TestNegotiationOutsideLimitsIsRefused(t *testing.T) {
	good := Negotiation{Buffers: 16, BufferSize: 4096, Offers: 8, CanRead: true}
	b := good.AppendTo(nil)
	if n, err := DecodeNegotiation(append(b, 1, 2, 3)); err != nil || n != good {
		t.Errorf("with fields of a later version: %+v, %v", n, err)
	}
	for n := range b {
		if _, err := DecodeNegotiation(b[:n]); !errors.Is(err, ErrProtocol) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	if HeaderSize+len(b) > MaxNegotiation {
		t.Errorf("a negotiation of %d bytes", HeaderSize+len(b))
	}
	for _, bad := range []Negotiation{
		{Buffers: minBuffers - 1, BufferSize: 4096, Offers: 8},
		{Buffers: maxBuffers + 1, BufferSize: 4096, Offers: 8},
		{Buffers: 16, BufferSize: minBufferSize - 1, Offers: 8},
		{Buffers: 16, BufferSize: maxBufferSize + 1, Offers: 8},
		{Buffers: 16, BufferSize: 4096, Offers: 0},
		{Buffers: 16, BufferSize: 4096, Offers: maxOffers + 1},
	} {
		if n, err := DecodeNegotiation(bad.AppendTo(nil)); !errors.Is(err, ErrProtocol) {
			t.Errorf("%+v: %+v, %v", bad, n, err)
		}
	}
	if _, err := DecodeNegotiation(make([]byte, MaxNegotiation)); !errors.Is(err, ErrProtocol) {
		t.Errorf("a negotiation that is too long: %v", err)
	}
}

// FuzzDecode decodes random bytes: an accepted message encodes to the same bytes.
func FuzzDecode(f *testing.F) {
	for _, g := range golden {
		f.Add(unhex(f, g.hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrProtocol) {
				t.Fatalf("%v is no ErrProtocol", err)
			}
			return
		}
		if again := m.AppendTo(nil); !bytes.Equal(b, again) {
			t.Fatalf("%x encodes to %x", b, again)
		}
		if m.Type == TypeNegotiate || m.Type == TypeNegotiateAck {
			if n, err := DecodeNegotiation(m.Payload); err == nil && len(m.Payload) == negotiationSize {
				n2, err := DecodeNegotiation(n.AppendTo(nil))
				if err != nil || n2 != n {
					t.Fatalf("%+v, then %+v, %v", n, n2, err)
				}
			}
		}
	})
}
