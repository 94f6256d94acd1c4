package rsock

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lwio/internal/test/hexmsg"
)

// goldenHellos are hellos byte by byte.
var goldenHellos = []struct {
	name string
	h    hello
	wire string
}{
	{"request by IPv4", hello{kind: helloRequest, from: netip.MustParseAddrPort("10.0.0.7:0"), to: netip.MustParseAddrPort("10.0.0.9:8080"),
		proofPort: 0xC350, nonce: [nonceSize]byte{1, 2, 3, 4, 5, 6, 7, 8}},
		`52 53 4F 43 4B 02 01 00
		 00 00 00 00 00 00 00 00 00 00 FF FF 0A 00 00 07
		 00 00 00 00 00 00 00 00 00 00 FF FF 0A 00 00 09
		 00 00 90 1F 50 C3 00 00
		 01 02 03 04 05 06 07 08`},
	{"accept by IPv6", hello{kind: helloAccept, from: netip.MustParseAddrPort("[2001:db8::1]:443"), to: netip.MustParseAddrPort("[::1]:50000")},
		`52 53 4F 43 4B 02 02 00
		 20 01 0D B8 00 00 00 00 00 00 00 00 00 00 00 01
		 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01
		 BB 01 50 C3 00 00 00 00
		 00 00 00 00 00 00 00 00`},
	{"rejection", hello{kind: helloReject, reason: rejectedBacklog, from: netip.MustParseAddrPort("127.0.0.1:1"), to: netip.MustParseAddrPort("127.0.0.1:2")},
		`52 53 4F 43 4B 02 03 02
		 00 00 00 00 00 00 00 00 00 00 FF FF 7F 00 00 01
		 00 00 00 00 00 00 00 00 00 00 FF FF 7F 00 00 01
		 01 00 02 00 00 00 00 00
		 00 00 00 00 00 00 00 00`},
}

var sameAddrPort = cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })

func TestHelloGolden(t *testing.T) {
	for _, g := range goldenHellos {
		t.Run(g.name, func(t *testing.T) {
			wire, err := hexmsg.Fields{}.Make(g.wire)
			if err != nil {
				t.Fatal(err)
			}
			if got := g.h.appendTo(nil); !bytes.Equal(got, wire) || len(got) != helloSize {
				t.Errorf("encoded\n% X, want\n% X", got, wire)
			}
			for _, pad := range []int{0, 1, 8, 100} { // some fabrics pad
				got, err := decodeHello(append(bytes.Clone(wire), make([]byte, pad)...), g.h.kind)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(g.h, got, cmp.AllowUnexported(hello{}), sameAddrPort); d != "" {
					t.Error(d)
				}
			}
			for n := range wire {
				if _, err := decodeHello(wire[:n], g.h.kind); err == nil {
					t.Errorf("%d bytes of it are a hello", n)
				}
			}
			for kind := range helloKind(5) {
				if _, err := decodeHello(wire, kind); (err == nil) != (kind == g.h.kind) {
					t.Errorf("as kind %d: %v", kind, err)
				}
			}
		})
	}
}

// TestInvalidHelloIsRefused changes one byte of a request to an invalid value.
func TestInvalidHelloIsRefused(t *testing.T) {
	good := goldenHellos[0].h.appendTo(nil)
	cases := []struct {
		name string
		at   int
		to   byte
	}{
		{"magic", 0, 'r'}, {"end of the magic", 4, 'k'}, {"version 0", 5, 0}, {"version 1", 5, 1}, {"version 3", 5, 3}, {"kind", 6, 9},
		{"a request with a reason", 7, 1}, {"reserved", 46, 1}, {"end of reserved", 47, 1}, {"behind the end", 56, 1},
	}
	for _, c := range cases {
		b := append(bytes.Clone(good), 0)
		b[c.at] = c.to
		if _, err := decodeHello(b, helloRequest); err == nil {
			t.Errorf("%s: no error", c.name)
		}
	}
	unasked := goldenHellos[0].h
	unasked.proofPort = 0
	accept, answered := goldenHellos[1].h, goldenHellos[1].h
	accept.proofPort, answered.nonce[7] = 1, 1
	for _, h := range []hello{unasked, accept, answered} {
		if _, err := decodeHello(h.appendTo(nil), h.kind); err == nil {
			t.Errorf("%+v: no error", h)
		}
	}
	reject := goldenHellos[2].h.appendTo(nil)
	for _, reason := range []byte{0, 5, 255} {
		reject[7] = reason
		if _, err := decodeHello(reject, helloReject); err == nil {
			t.Errorf("a rejection for reason %d", reason)
		}
	}
}

func FuzzHello(f *testing.F) {
	for _, g := range goldenHellos {
		f.Add(g.h.appendTo(nil), byte(g.h.kind))
	}
	f.Fuzz(func(t *testing.T, b []byte, kind byte) {
		h, err := decodeHello(b, helloKind(kind))
		if err != nil {
			return
		}
		if again := h.appendTo(nil); !bytes.Equal(again, b[:helloSize]) {
			t.Errorf("% X was read as % X", b, again)
		}
	})
}
