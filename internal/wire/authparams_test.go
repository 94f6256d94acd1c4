package wire

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

func ptr[T any](v T) *T { return &v }

// clientParams are the parameters of the client in the text's figure.
func clientParams() AuthParams {
	return AuthParams{
		RevID: RevID, Endian: 8, PageSize: 4096, BaseSequence: 0,
		MaxRdmaWindowSize: 64 << 10, MaxSendBufferSize: 1024, MaxRecvBufferSize: 16,
		HeaderSize: 48, Credits: 32, RdmaReadSupported: 1,
		Key:       &[16]byte{0: 0xA1, 15: 0xA2},
		Signature: &[16]byte{0: 0xB1, 15: 0xB2},
	}
}

// serverParams are the parameters of the server in the text's figure.
func serverParams() AuthParams {
	return AuthParams{
		RevID: RevID, Endian: 8, PageSize: 4096, BaseSequence: 1,
		MaxRdmaWindowSize: 512 << 10, MaxSendBufferSize: 16, MaxRecvBufferSize: 8192,
		HeaderSize: 48, Credits: 16, RdmaReadSupported: 0,
		Key:       &[16]byte{0: 0xC1, 15: 0xC2},
		SessionID: &[8]byte{0: 0xD1, 7: 0xD2},
		Signature: &[16]byte{0: 0xB1, 15: 0xB2},
	}
}

func clientRows(options ...row) []row {
	return append([]row{
		{"Magic", "4c57494f"},
		{"RevId", "0110"},
		{"Endian", "0800"},
		{"PageSize", "0010"},
		{"BaseSequence", "0000"},
		{"MaxRdmaWindowSize", "00000100"},
		{"MaxSendBufferSize", "00040000"},
		{"MaxRecvBufferSize", "10000000"},
		{"HeaderSize", "3000"},
		{"Credits", "2000"},
		{"RdmaReadSupported", "0100"},
	}, options...)
}

const (
	zeros14 = "0000000000000000000000000000"
	zeros6  = "000000000000"
)

var (
	keyRow       = row{"Key", "0110 a1" + zeros14 + "a2"}
	signatureRow = row{"Signature", "0310 b1" + zeros14 + "b2"}
	endRow       = row{"End", "00"}
)

// Source: [LWIO §Connection Authentication], [LWIO claim 12], [OP-11], [OP-15], [OP-46b], [OP-50a], [OP-112]
func TestAuthParamsMatchesGoldenBytes(t *testing.T) {
	full := clientParams()
	full.SessionID, full.PreviousSessionID = ptr([8]byte{0: 0xD1, 7: 0xD2}), ptr([8]byte{0: 0xE1, 7: 0xE2})
	full.Extensions = 0x80000001
	full.Seal, full.Binding = 1, &[BindingSize]byte{0: 0xAB, 31: 0xCD}
	full.Keyed = &KeyedOption{Nonce: [16]byte{0: 0xF1, 15: 0xF2}, MAC: [32]byte{0: 0xF3, 31: 0xF4}}
	bare := clientParams()
	bare.Key, bare.Signature = nil, nil
	server := golden(t,
		row{"Magic", "4c57494f"},
		row{"RevId", "0110"},
		row{"Endian", "0800"},
		row{"PageSize", "0010"},
		row{"BaseSequence", "0100"},
		row{"MaxRdmaWindowSize", "00000800"},
		row{"MaxSendBufferSize", "10000000"},
		row{"MaxRecvBufferSize", "00200000"},
		row{"HeaderSize", "3000"},
		row{"Credits", "1000"},
		row{"RdmaReadSupported", "0000"},
		row{"Key", "0110 c1" + zeros14 + "c2"},
		row{"SessionId", "0208 d1" + zeros6 + "d2"},
		signatureRow, endRow,
	)
	for _, c := range []struct {
		name   string
		size   int
		params AuthParams
		bytes  []byte
	}{
		{"client", 67, clientParams(), golden(t, clientRows(keyRow, signatureRow, endRow)...)},
		{"server", 77, serverParams(), server},
		{"without options", 31, bare, golden(t, clientRows(endRow)...)},
		{"with all options", 180, full, golden(t, clientRows(
			keyRow,
			row{"SessionId", "0208 d1" + zeros6 + "d2"},
			row{"PreviousSessionId", "8108 e1" + zeros6 + "e2"},
			row{"Binding", "8220 ab" + zeros14 + "0000" + zeros14 + "cd"},
			row{"Seal", "8301 01"},
			row{"Extensions", "8404 01000080"},
			row{"Keyed Nonce", "8030 f1" + zeros14 + "f2"},
			row{"Keyed MAC", "f3" + zeros14 + "0000" + zeros14 + "f4"},
			signatureRow, endRow)...)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if len(c.bytes) != c.size {
				t.Fatalf("%d bytes instead of %d", len(c.bytes), c.size)
			}
			same(t, c.params.AppendTo(nil), c.bytes)
			got, err := DecodeAuthParams(c.bytes)
			if err != nil {
				t.Fatal(err)
			}
			same(t, got.AppendTo(nil), c.bytes)
			refusesPrefixes(t, c.bytes, func(b []byte) error { _, err := DecodeAuthParams(b); return err })
			// The decoded value does not refer to the bytes.
			clear(c.bytes)
			same(t, got.AppendTo(nil), c.params.AppendTo(nil))
		})
	}
}

// Source: [OP-46], [OP-50a], [OP-50b]
func TestAuthParamsOptions(t *testing.T) {
	unknown := row{"unknown", "f0 03 010203"}
	empty := row{"unknown, empty", "f1 00"}
	session := row{"SessionId", "0208 d1" + zeros6 + "d2"}
	for _, c := range []struct {
		name    string
		options []row
		want    outcome
	}{
		{"any order", []row{signatureRow, session, keyRow, endRow}, fine},
		{"unknown ones are skipped", []row{unknown, keyRow, empty, signatureRow, endRow}, fine},
		{"no end", []row{keyRow, signatureRow}, denied},
		{"nothing", nil, denied},
		{"bytes after the end", []row{keyRow, signatureRow, endRow, {"extra", "00"}}, denied},
		{"an option after the end", []row{signatureRow, endRow, keyRow, endRow}, denied},
		{"key twice", []row{keyRow, keyRow, signatureRow, endRow}, denied},
		{"signature twice", []row{keyRow, signatureRow, signatureRow, endRow}, denied},
		{"session id twice", []row{session, session, endRow}, denied},
		{"unknown twice", []row{unknown, unknown, endRow}, denied},
		{"key of 15 bytes", []row{{"Key", "010f a1" + zeros14}, endRow}, denied},
		{"key of 17 bytes", []row{{"Key", "0111 a1" + zeros14 + "a200"}, endRow}, denied},
		{"signature of 15 bytes", []row{{"Signature", "030f a1" + zeros14}, endRow}, denied},
		{"session id of 4 bytes", []row{{"SessionId", "0204 01020304"}, endRow}, denied},
		{"empty keyed option", []row{{"Keyed", "8000"}, endRow}, denied},
		{"previous session id of 16 bytes", []row{{"Previous", "8110 a1" + zeros14 + "a2"}, endRow}, denied},
		{"a code alone", []row{keyRow, {"code", "01"}}, denied},
		{"longer than the message", []row{{"unknown", "f0 ff 00"}}, denied},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := golden(t, clientRows(c.options...)...)
			p, err := DecodeAuthParams(b)
			want(t, err, c.want)
			if err == nil && (p.Key == nil || *p.Key != [16]byte{0: 0xA1, 15: 0xA2} || *p.Signature != [16]byte{0: 0xB1, 15: 0xB2}) {
				t.Errorf("%+v", p)
			}
		})
	}
}

// Source: [OP-15]
func TestAuthParamsMagic(t *testing.T) {
	p := clientParams()
	for i := range 4 {
		b := p.AppendTo(nil)
		b[i]++
		_, err := DecodeAuthParams(b)
		want(t, err, denied)
	}
}

// drawParams makes any parameters.
func drawParams(t *rapid.T) AuthParams {
	u16 := func(name string) uint16 { return rapid.Uint16().Draw(t, name) }
	u32 := func(name string) uint32 { return rapid.Uint32().Draw(t, name) }
	p := AuthParams{
		RevID: u16("rev"), Endian: u16("endian"), PageSize: u16("page"), BaseSequence: u16("base"),
		MaxRdmaWindowSize: u32("window"), MaxSendBufferSize: u32("send"), MaxRecvBufferSize: u32("recv"),
		HeaderSize: u16("header"), Credits: u16("credits"), RdmaReadSupported: u16("read"),
	}
	has := func(name string) bool { return rapid.Bool().Draw(t, "has "+name) }
	b := func(name string, n int) []byte { return rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, name) }
	if has("key") {
		p.Key = ptr([16]byte(b("key", 16)))
	}
	if has("session") {
		p.SessionID = ptr([8]byte(b("session", 8)))
	}
	if has("previous") {
		p.PreviousSessionID = ptr([8]byte(b("previous", 8)))
	}
	if has("keyed") {
		p.Keyed = &KeyedOption{Nonce: [16]byte(b("nonce", 16)), MAC: [32]byte(b("mac", 32))}
	}
	if has("signature") {
		p.Signature = ptr([16]byte(b("signature", 16)))
	}
	return p
}

func TestAuthParamsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawParams(t)
		b := p.AppendTo(nil)
		got, err := DecodeAuthParams(b)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got.AppendTo(nil), b)
		if n := paramsLen(got); n != len(b) {
			t.Fatalf("%d bytes instead of %d", len(b), n)
		}
	})
}

// paramsLen is the law of the length of parameters.
func paramsLen(p AuthParams) int {
	n := authFixedSize + 1
	for _, o := range []struct {
		has  bool
		size int
	}{
		{p.Key != nil, 18}, {p.SessionID != nil, 10}, {p.Signature != nil, 18},
		{p.Keyed != nil, 50}, {p.PreviousSessionID != nil, 10},
	} {
		if o.has {
			n += o.size
		}
	}
	return n
}

func FuzzAuthParams(f *testing.F) {
	for _, p := range []AuthParams{clientParams(), serverParams()} {
		f.Add(p.AppendTo(nil))
		p.Keyed, p.PreviousSessionID, p.Extensions = &KeyedOption{}, &[8]byte{}, FileCalls
		f.Add(p.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := DecodeAuthParams(b)
		if err != nil {
			want(t, err, denied)
			return
		}
		again := p.AppendTo(nil)
		if len(again) > len(b) || !bytes.Equal(again[:authFixedSize], b[:authFixedSize]) {
			t.Fatalf("%x encodes to %x", b, again)
		}
		p2, err := DecodeAuthParams(again)
		if err != nil {
			t.Fatal(err)
		}
		same(t, p2.AppendTo(nil), again)
		// Signing decodable parameters fails for a missing option only.
		if err := SignMD5(b); (err == nil) != (p.Signature != nil) {
			t.Fatal(err)
		}
		if p.Signature != nil && VerifyMD5(b) != nil {
			t.Fatal("a signature does not hold")
		}
	})
}
