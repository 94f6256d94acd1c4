package wire

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var (
	negotiateRequest = NegotiateRequest{
		ClientName: "büro", Key: [16]byte{0: 0xA1, 15: 0xA2}, ResponseLength: 0x2010,
		Providers: []AddressBlock{
			{Name: "iwarp", Instances: []NetAddress{
				{HostAddress: []byte{10, 0, 0, 1}, Discriminator: []byte{0x15, 0x45}},
				{Discriminator: []byte{1, 2, 3}},
			}},
			{Name: "shm"},
		},
	}
	negotiateResponse = NegotiateResponse{
		ServerName: "srv", Key: [16]byte{0: 0xC1, 15: 0xC2},
		Providers: []AddressBlock{{Name: "iwarp", Instances: []NetAddress{{Discriminator: []byte{0x11, 0x62}}}}},
	}
	iwarpName = row{"Name", "6900 7700 6100 7200 7000" + strings.Repeat("00", 118)}
	shmName   = row{"Name", "7300 6800 6d00" + strings.Repeat("00", 122)}
)

// requestRows is the golden request.
func requestRows() []row {
	return []row{
		{"ProtocolId", "4c57494f"},
		{"RevId", "01100000"},
		{"Opcode", "fe00"},
		{"Length", "3503"},
		{"ClientName", "6200 fc00 7200 6f00" + strings.Repeat("00", 504)},
		{"Key", "a1" + zeros14 + "a2"},
		{"ResponseLength", "1020"},
		{"ProviderCount", "0200"},
		iwarpName,
		{"InstanceCount", "0200"},
		{"HostAddressLen", "0400"},
		{"DiscriminatorLen", "0200"},
		{"HostAddress", "0a000001"},
		{"Discriminator", "1545"},
		{"HostAddressLen", "0000"},
		{"DiscriminatorLen", "0300"},
		{"Discriminator", "010203"},
		shmName,
		{"InstanceCount", "0000"},
	}
}

// responseRows is the golden response.
func responseRows() []row {
	return []row{
		{"ProtocolId", "4c57494f"},
		{"RevId", "01100000"},
		{"Opcode", "fe00"},
		{"Length", "a602"},
		{"SrvName", "7300 7200 7600" + strings.Repeat("00", 506)},
		{"Key", "c1" + zeros14 + "c2"},
		{"ProviderCount", "0100"},
		iwarpName,
		{"InstanceCount", "0100"},
		{"HostAddressLen", "0000"},
		{"DiscriminatorLen", "0200"},
		{"Discriminator", "1162"},
	}
}

// Source: [LWIO §Network Discovery], [LWIO claim 7], [LWIO claim 8], [OP-12], [OP-14], [OP-15], [OP-16], [OP-17], [OP-38b], [OP-107]
func TestNegotiateRequestMatchesGoldenBytes(t *testing.T) {
	b := golden(t, requestRows()...)
	got, err := negotiateRequest.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, b)
	r, err := DecodeNegotiateRequest(b)
	if err != nil || !reflect.DeepEqual(clean(r.Providers), clean(negotiateRequest.Providers)) ||
		r.ClientName != negotiateRequest.ClientName || r.Key != negotiateRequest.Key || r.ResponseLength != negotiateRequest.ResponseLength {
		t.Errorf("%+v, %v", r, err)
	}
	decode := func(b []byte) error { _, err := DecodeNegotiateRequest(b); return err }
	refusesPrefixes(t, b, decode)
	refusesMore(t, b, decode)
	refusesPrefixes(t, b, func(p []byte) error { return decode(withLength(p)) })
	// The decoded value does not refer to the bytes.
	clear(b)
	if r.Providers[0].Instances[0].HostAddress[0] != 10 {
		t.Error("the addresses are those of the message")
	}
}

// Source: [LWIO §Network Discovery], [LWIO claim 8], [LWIO claim 13], [OP-16], [OP-38b]
func TestNegotiateResponseMatchesGoldenBytes(t *testing.T) {
	b := golden(t, responseRows()...)
	got, err := negotiateResponse.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, b)
	r, err := DecodeNegotiateResponse(b)
	if err != nil || !reflect.DeepEqual(clean(r.Providers), clean(negotiateResponse.Providers)) ||
		r.ServerName != "srv" || r.Key != negotiateResponse.Key {
		t.Errorf("%+v, %v", r, err)
	}
	decode := func(b []byte) error { _, err := DecodeNegotiateResponse(b); return err }
	refusesPrefixes(t, b, decode)
	refusesMore(t, b, decode)
	refusesPrefixes(t, b, func(p []byte) error { return decode(withLength(p)) })
}

// withLength makes the length of a message right.
func withLength(b []byte) []byte {
	if len(b) >= controlHeaderSize {
		b[10], b[11] = byte(len(b)), byte(len(b)>>8)
	}
	return b
}

// clean makes empty slices nil, to compare.
func clean(blocks []AddressBlock) string {
	var s strings.Builder
	for _, b := range blocks {
		fmt.Fprintf(&s, "%q:", b.Name)
		for _, a := range b.Instances {
			fmt.Fprintf(&s, " %x/%x", a.HostAddress, a.Discriminator)
		}
	}
	return s.String()
}

// Source: [LWIO §Network Discovery], [OP-14], [OP-15], [OP-35], [OP-37]
func TestNegotiateRefusesInvalidMessages(t *testing.T) {
	for _, c := range []struct {
		name string
		at   int
		hex  string
	}{
		{"another protocol", 0, "4f49574c"},
		{"another revision", 4, "02100000"},
		{"a revision of 32 bits", 6, "0100"},
		{"another opcode", 8, "ff00"},
		{"length too small", 10, "3403"},
		{"length too large", 10, "3603"},
		{"half a surrogate", 12, "00d8"},
		{"surrogates the wrong way round", 12, "00dc00d8"},
		{"half a surrogate after text", 14, "00d8"},
		{"half a surrogate after a pair", 12, "34d81edd00dc"},
		{"more providers", 542, "0300"},
		{"fewer providers", 542, "0100"},
		{"65535 providers", 542, "ffff"},
		{"half a surrogate in a provider", 544, "00dc"},
		{"more instances", 672, "ffff"},
		{"fewer instances", 672, "0100"},
		{"address beyond the message", 674, "ffff"},
		{"discriminator beyond the message", 676, "ffff"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := golden(t, requestRows()...)
			p, err := hex.DecodeString(c.hex)
			if err != nil {
				t.Fatal(err)
			}
			copy(b[c.at:], p)
			_, err = DecodeNegotiateRequest(b)
			want(t, err, ended)
		})
	}
}

// A name ends at its first NUL, or fills its field. Source: [OP-16]
func TestNegotiateNameEndsAtNUL(t *testing.T) {
	for _, c := range []struct {
		name     string
		client   string
		provider string
		ok       bool
	}{
		{"full", strings.Repeat("x", 256), strings.Repeat("y", 64), true},
		{"full of pairs", strings.Repeat("𝄞", 128), strings.Repeat("𝄞", 32), true},
		{"empty", "", "", true},
		{"client name too long", strings.Repeat("x", 257), "", false},
		{"client name too long by half a pair", strings.Repeat("x", 255) + "𝄞", "", false},
		{"provider too long", "", strings.Repeat("y", 65), false},
		{"NUL", "a\x00b", "", false},
		{"NUL in a provider", "", "\x00", false},
		{"no text", "a\xffb", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := NegotiateRequest{ClientName: c.client, Providers: []AddressBlock{{Name: c.provider}}}
			b, err := r.AppendTo(nil)
			if (err == nil) != c.ok {
				t.Fatal(err)
			}
			if !c.ok {
				return
			}
			got, err := DecodeNegotiateRequest(b)
			if err != nil || got.ClientName != c.client || got.Providers[0].Name != c.provider {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	b := golden(t, requestRows()...)
	copy(b[12+2:], "\x00\x00\x00\xd8") // units after the NUL are ignored
	if r, err := DecodeNegotiateRequest(b); err != nil || r.ClientName != "b" {
		t.Errorf("%q, %v", r.ClientName, err)
	}
}

// Source: [OP-35]
func TestNegotiateTooLong(t *testing.T) {
	big := NetAddress{HostAddress: make([]byte, 40000)}
	for name, blocks := range map[string][]AddressBlock{
		"message":   {{Instances: []NetAddress{big, big}}},
		"address":   {{Instances: []NetAddress{{Discriminator: make([]byte, 65536)}}}},
		"instances": {{Instances: make([]NetAddress, 65536)}},
		"providers": make([]AddressBlock, 65536),
	} {
		r := NegotiateResponse{Providers: blocks}
		if b, err := r.AppendTo(nil); err == nil {
			t.Errorf("%s: %d bytes", name, len(b))
		}
	}
	exact := NegotiateResponse{Providers: []AddressBlock{{Instances: []NetAddress{{
		HostAddress: make([]byte, 60000), Discriminator: make([]byte, 0xFFFF-542-130-4-60000),
	}}}}}
	b, err := exact.AppendTo(nil)
	if err != nil || len(b) != 0xFFFF {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	if _, err := DecodeNegotiateResponse(b); err != nil {
		t.Error(err)
	}
	same(t, must(exact.AppendTo([]byte("before")))[6:], b)
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// Source: [OP-36], [OP-37]
func TestNegotiateResponseFitsTheRoom(t *testing.T) {
	three := NegotiateResponse{ServerName: "srv", Providers: []AddressBlock{
		{Name: "shm"},
		{Name: "iwarp", Instances: []NetAddress{{Discriminator: []byte{1, 2}}}},
		{Name: "ib"},
	}}
	for _, c := range []struct{ room, providers int }{
		{541, -1}, {0, -1}, {542, 0}, {671, 0}, {672, 1}, {807, 1}, {808, 2}, {937, 2}, {938, 3}, {65535, 3}, {1 << 20, 3},
	} {
		b, err := three.AppendFitting(nil, c.room)
		if c.providers < 0 {
			want(t, err, ended)
			continue
		}
		if err != nil || len(b) > c.room {
			t.Fatalf("%d bytes for %d, %v", len(b), c.room, err)
		}
		r, err := DecodeNegotiateResponse(b)
		if err != nil || len(r.Providers) != c.providers {
			t.Errorf("room for %d: %d providers, %v", c.room, len(r.Providers), err)
		}
	}
	if len(three.Providers) != 3 {
		t.Error("the caller's response was changed")
	}
}

// drawBlocks makes any providers.
func drawBlocks(t *rapid.T) []AddressBlock {
	var blocks []AddressBlock
	for range rapid.IntRange(0, 3).Draw(t, "providers") {
		b := AddressBlock{Name: drawName(t, "name", maxProviderName)}
		for range rapid.IntRange(0, 3).Draw(t, "instances") {
			b.Instances = append(b.Instances, NetAddress{
				HostAddress:   rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "host"),
				Discriminator: rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "discriminator"),
			})
		}
		blocks = append(blocks, b)
	}
	return blocks
}

func TestNegotiateRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		req := NegotiateRequest{
			ClientName: drawName(t, "client", maxHostName), ResponseLength: rapid.Uint16().Draw(t, "room"),
			Key: [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "key")), Providers: drawBlocks(t),
		}
		b := must(req.AppendTo(nil))
		got, err := DecodeNegotiateRequest(b)
		if err != nil {
			t.Fatal(err)
		}
		same(t, must(got.AppendTo(nil)), b)
		resp := NegotiateResponse{ServerName: req.ClientName, Key: req.Key, Providers: req.Providers}
		b = must(resp.AppendTo(nil))
		back, err := DecodeNegotiateResponse(b)
		if err != nil {
			t.Fatal(err)
		}
		same(t, must(back.AppendTo(nil)), b)
		size := negotiateResponseFixed
		for _, p := range resp.Providers {
			size += p.size()
		}
		if size != len(b) {
			t.Fatalf("%d bytes instead of %d", len(b), size)
		}
	})
}

// fuzzEncoding fuzzes a decoder. recode decodes a message and encodes the result.
func fuzzEncoding(f *testing.F, recode func(b []byte) ([]byte, error)) {
	f.Fuzz(func(t *testing.T, b []byte) {
		again, err := recode(b)
		if err != nil {
			want(t, err, ended)
			return
		}
		if len(again) != len(b) {
			t.Fatalf("%d bytes became %d", len(b), len(again))
		}
		same(t, must(recode(again)), again)
	})
}

func FuzzNegotiateRequest(f *testing.F) {
	f.Add(must(negotiateRequest.AppendTo(nil)))
	f.Add(must((&NegotiateRequest{}).AppendTo(nil)))
	fuzzEncoding(f, func(b []byte) ([]byte, error) {
		r, err := DecodeNegotiateRequest(b)
		if err != nil {
			return nil, err
		}
		return must(r.AppendTo(nil)), nil
	})
}

func FuzzNegotiateResponse(f *testing.F) {
	f.Add(must(negotiateResponse.AppendTo(nil)))
	f.Add(must((&NegotiateResponse{}).AppendTo(nil)))
	fuzzEncoding(f, func(b []byte) ([]byte, error) {
		r, err := DecodeNegotiateResponse(b)
		if err != nil {
			return nil, err
		}
		return must(r.AppendTo(nil)), nil
	})
}
