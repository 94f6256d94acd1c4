package srvsvc

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

// serverUNC is the name of the server as smbclient sends it.
const serverUNC = "00000200 0a000000 00000000 0a000000 3100320037002e0030002e0030002e0031000000"

// syntaxWire is srvsvc 3.0 and NDR 2.0.
const (
	syntaxWire = "c84f324b7016d30112785a47bf6ee18803000000 045d888aeb1cc9119fe808002b10486002000000"
)

// sample are the shares of the golden messages.
var sample = []Share{{Name: "data", Type: Disk}, {Name: "IPC$", Type: Pipes, Remark: "named pipes"}}

// goldens are calls with their results. The requests were recorded from smbclient and rpcclient 4.17,
// except for the fields under test; the bytes of the responses follow from the specifications.
var goldens = []struct{ name, request, response string }{
	{
		"bind",
		"05000b0310000000 48000000 01000000 b810b810 00000000 01000000 0000 0100" + syntaxWire,
		"05000c0310000000 44000000 01000000 b810b810 01000000 0d00 5c504950455c73727673766300 00" +
			"01000000 0000 0000 045d888aeb1cc9119fe808002b10486002000000",
	},
	{
		"bind with small fragments, an unknown interface and an unknown syntax",
		"05000b0310000000 a0000000 02000000 98057017 07000000 03000000" +
			"0000 0100 ffffffffffffffffffffffffffffffff03000000 045d888aeb1cc9119fe808002b10486002000000" +
			"0100 0100 c84f324b7016d30112785a47bf6ee18803000000 2c1cb76c12984045030000000000000001000000" +
			"0200 0100" + syntaxWire,
		"05000c0310000000 74000000 02000000 b8109805 07000000 0d00 5c504950455c73727673766300 00" +
			"03000000 0200 0100 0000000000000000000000000000000000000000" +
			"0200 0200 0000000000000000000000000000000000000000" +
			"0000 0000 045d888aeb1cc9119fe808002b10486002000000",
	},
	{
		"change of a context",
		"05000e0310000000 48000000 03000000 b810b810 01000000 01000000 0000 0100" + syntaxWire,
		"05000f0310000000 38000000 03000000 b810b810 01000000 00000000" +
			"01000000 0000 0000 045d888aeb1cc9119fe808002b10486002000000",
	},
	{
		"bind of another version",
		"04000b0310000000 48000000 04000000 b810b810 00000000 01000000 0000 0100" + syntaxWire,
		"05000d0310000000 15000000 04000000 0400 010500",
	},
	{
		"bind with authentication",
		"05000b0310000000 48000800 05000000 b810b810 00000000 01000000 0000 0100" + syntaxWire,
		"05000d0310000000 15000000 05000000 0800 010500",
	},
	{
		"NetrShareEnum, level 1",
		"0500000310000000 5c000000 02000000 44000000 0000 0f00" + serverUNC + "01000000 01000000 04000200 00000000 00000000 ffffffff 08000200 00000000",
		"0500020310000000 bc000000 02000000 a4000000 0000 0000 01000000 01000000 04000200 02000000 08000200 02000000" +
			"0c000200 00000000 10000200 14000200 03000080 18000200" +
			"05000000 00000000 05000000 64006100740061000000 0000 01000000 00000000 01000000 0000 0000" +
			"05000000 00000000 05000000 49005000430024000000 0000" +
			"0c000000 00000000 0c000000 6e0061006d0065006400200070006900700065007300 0000" +
			"02000000 1c000200 00000000 00000000",
	},
	{
		"NetrShareEnum, level 0, the rest of a list, without the name of the server",
		"0500000310000000 3c000000 02000000 24000000 0100 0f00 00000000 00000000 00000000 04000200 00000000 00000000 ffffffff 08000200 01000000",
		"0500020310000000 5c000000 02000000 44000000 0100 0000 00000000 00000000 04000200 01000000 08000200 01000000" +
			"0c000200 05000000 00000000 05000000 49005000430024000000 0000 01000000 10000200 00000000 00000000",
	},
	{
		"NetrShareEnum beyond the end of the list",
		"0500000310000000 3c000000 02000000 24000000 0100 0f00 00000000 00000000 00000000 04000200 00000000 00000000 ffffffff 08000200 ffffffff",
		"0500020310000000 40000000 02000000 28000000 0100 0000 00000000 00000000 04000200 00000000 08000200 00000000" +
			"00000000 0c000200 00000000 00000000",
	},
	{
		"NetrShareEnum, level 2",
		"0500000310000000 58000000 02000000 40000000 0000 0f00" + serverUNC + "02000000 02000000 04000200 00000000 00000000 ffffffff 00000000",
		"0500020310000000 30000000 02000000 18000000 0000 0000 02000000 02000000 00000000 00000000 00000000 7c000000",
	},
	{
		"NetrShareEnum of a level that does not exist",
		"0500000310000000 58000000 02000000 40000000 0000 0f00" + serverUNC + "03000000 03000000 04000200 00000000 00000000 ffffffff 00000000",
		"0500030310000000 20000000 02000000 00000000 0000 0000 f7060000 00000000",
	},
	{
		"NetrShareGetInfo, level 1, in another case",
		"0500000310000000 58000000 04000000 40000000 0000 1000" + serverUNC + "05000000 00000000 05000000 64004100740061000000 0000 01000000",
		"0500020310000000 58000000 04000000 40000000 0000 0000 01000000 04000200 08000200 00000000 0c000200" +
			"05000000 00000000 05000000 64006100740061000000 0000 01000000 00000000 01000000 0000 0000 00000000",
	},
	{
		"NetrShareGetInfo of another share",
		"0500000310000000 58000000 04000000 40000000 0000 1000" + serverUNC + "05000000 00000000 05000000 64004100740062000000 0000 01000000",
		"0500020310000000 24000000 04000000 0c000000 0000 0000 01000000 00000000 06090000",
	},
	{
		"NetrShareGetInfo, level 502",
		"0500000310000000 58000000 04000000 40000000 0000 1000" + serverUNC + "05000000 00000000 05000000 64006100740061000000 0000 f6010000",
		"0500020310000000 24000000 04000000 0c000000 0000 0000 f6010000 00000000 7c000000",
	},
	{
		"NetrShareGetInfo of a level that does not exist",
		"0500000310000000 58000000 04000000 40000000 0000 1000" + serverUNC + "05000000 00000000 05000000 64006100740061000000 0000 03000000",
		"0500020310000000 20000000 04000000 08000000 0000 0000 03000000 7c000000",
	},
	{
		"another call, with an object",
		"0500008310000000 28000000 06000000 10000000 0000 1500 00112233445566778899aabbccddeeff",
		"0500030310000000 20000000 06000000 00000000 0000 0000 0200011c 00000000",
	},
	{
		"the first fragment of a call",
		"0500000110000000 58000000 04000000 40000000 0000 1000" + serverUNC + "05000000 00000000 05000000 64006100740061000000 0000 01000000",
		"0500030310000000 20000000 04000000 00000000 0000 0000 0b00011c 00000000",
	},
}

func bytesOf(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Source: [MS-SRVS 3.1.4.8], [MS-SRVS 3.1.4.10], [C706 12.6.4]
func TestServeAnswersGoldenRequests(t *testing.T) {
	for _, c := range goldens {
		got, err := Serve(bytesOf(t, c.request), sample)
		if want := bytesOf(t, c.response); err != nil || len(got) != 1 || !bytes.Equal(got[0], want) {
			t.Errorf("%s: %x, %v\nwant %x", c.name, got, err, want)
		}
	}
}

// Each prefix of a request is malformed. With the length of the fragment corrected, it is malformed
// or refused.
func TestServeRefusesShortRequests(t *testing.T) {
	for _, c := range goldens {
		whole := bytesOf(t, c.request)
		for n := range whole {
			if _, err := Serve(whole[:n], sample); !errors.Is(err, ErrMalformed) {
				t.Fatalf("%s, %d bytes: %v", c.name, n, err)
			}
			if n < headerSize {
				continue
			}
			short := bytes.Clone(whole[:n])
			le.PutUint16(short[8:], uint16(n))
			switch got, err := Serve(short, sample); {
			case errors.Is(err, ErrMalformed):
			case err != nil || got[0][2] != kindFault && got[0][2] != kindBindNak:
				t.Fatalf("%s, %d bytes: %x, %v", c.name, n, got, err)
			}
		}
	}
}

// A long list arrives in fragments of the size that every client takes.
//
// Source: [C706 12.6.3.1]
func TestLongListHasFragments(t *testing.T) {
	var many []Share
	for range 100 {
		many = append(many, Share{Name: strings.Repeat("n", 80)})
	}
	pdus, err := Serve(bytesOf(t, goldens[5].request), many)
	if err != nil || len(pdus) < 10 {
		t.Fatalf("%d fragments, %v", len(pdus), err)
	}
	names := 0
	for i, p := range pdus {
		flags := uint8(0)
		if i == 0 {
			flags |= flagFirst
		}
		if i == len(pdus)-1 {
			flags |= flagLast
		}
		if h, _, err := decodeHeader(p); err != nil || len(p) > maxSent || h.flags != flags {
			t.Errorf("fragment %d of %d bytes: %+v, %v", i, len(p), h, err)
		}
		names += bytes.Count(p, []byte{'n', 0})
	}
	if names != 100*80 {
		t.Errorf("%d characters of names", names)
	}
}

// FuzzServe sends arbitrary requests. Each response consists of PDUs of the request's call.
func FuzzServe(f *testing.F) {
	for _, c := range goldens {
		f.Add(bytesOf(f, c.request))
	}
	f.Fuzz(func(t *testing.T, request []byte) {
		pdus, err := Serve(request, sample)
		if err != nil && !errors.Is(err, ErrMalformed) || err == nil && len(pdus) == 0 {
			t.Fatalf("%d PDUs, %v", len(pdus), err)
		}
		for _, p := range pdus {
			if h, _, err := decodeHeader(p); err != nil || h.callID != le.Uint32(request[12:]) {
				t.Fatalf("%x: %v", p, err)
			}
		}
	})
}
