package wire

import (
	"testing"

	"pgregory.net/rapid"
)

var statusResponse = StatusResponse{Cookie: 0x0102030405060708, Information: 0x11121314, Status: 0xC0000022}

// Source: [LWIO §Connection Authentication], [LWIO §I/O Processing], [LWIO claim 14]
func TestStatusResponseMatchesGoldenBytes(t *testing.T) {
	b := golden(t,
		row{"Cookie", "0807060504030201"},
		row{"Information", "14131211"},
		row{"Status", "220000c0"},
	)
	same(t, statusResponse.AppendTo(nil), b)
	got, err := DecodeStatusResponse(b)
	if err != nil || got != statusResponse {
		t.Errorf("%+v, %v", got, err)
	}
	decode := func(b []byte) error { _, err := DecodeStatusResponse(b); return err }
	refusesPrefixes(t, b, decode)
	refusesMore(t, b, decode)
}

func TestStatusResponseRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := StatusResponse{
			Cookie: rapid.Uint64().Draw(t, "cookie"), Information: rapid.Uint32().Draw(t, "information"),
			Status: rapid.Uint32().Draw(t, "status"),
		}
		if got, err := DecodeStatusResponse(r.AppendTo(nil)); err != nil || got != r {
			t.Fatalf("%+v, %v", got, err)
		}
	})
}

func FuzzStatusResponse(f *testing.F) {
	f.Add(statusResponse.AppendTo(nil))
	f.Add(StatusResponse{Information: 0xFFFFFFFE, Status: NotifyCredit}.AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeStatusResponse(b)
		if (err == nil) != (len(b) == StatusResponseSize) {
			t.Fatalf("%d bytes: %v", len(b), err)
		}
		if err == nil {
			same(t, r.AppendTo(nil), b)
		}
	})
}
