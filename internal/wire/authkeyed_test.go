package wire

import (
	"bytes"
	"encoding/hex"
	"testing"
)

var (
	applicationKey = []byte("0123456789abcdef")
	clientKey      = [16]byte{0: 1, 15: 2}
	serverKey      = [16]byte{0: 3, 15: 4}
)

// Source: [OP-46b]
func TestDeriveAuthKey(t *testing.T) {
	got := DeriveAuthKey(applicationKey, clientKey, serverKey)
	input := golden(t,
		row{"counter", "00000001"},
		row{"label", hex.EncodeToString([]byte("LWIO AUTH"))},
		row{"separator", "00"},
		row{"client key", "01" + zeros14 + "02"},
		row{"server key", "03" + zeros14 + "04"},
		row{"bits", "00000100"},
	)
	same(t, got, hmacByHand(applicationKey, input))
	if s := hex.EncodeToString(got); s != kdfVector {
		t.Errorf("%s instead of %s", s, kdfVector)
	}
	if bytes.Equal(got, DeriveAuthKey(applicationKey, serverKey, clientKey)) {
		t.Error("the keys are interchangeable")
	}
}

// The MAC covers role, header, parameters without the signature and without itself,
// and from the server the client's nonce.
//
// Source: [OP-46b], [OP-42b]
func TestKeyedMACCoversParametersAndNonce(t *testing.T) {
	key := DeriveAuthKey(applicationKey, clientKey, serverKey)
	nonce := row{"Nonce", "8030 f1" + zeros14 + "f2"}
	mac := row{"MAC", zeros14 + "0000" + zeros14 + "0000"}
	unknown := row{"unknown", "f0 01 55"}
	signed := golden(t, clientRows(keyRow, nonce, mac, signatureRow, unknown, endRow)...)
	covered := golden(t, clientRows(keyRow, nonce, unknown, endRow)...)
	h := NewAuth(len(signed), target)
	h.CompleteBySend(5, 0)
	header := h.AppendTo(nil)
	peer := bytes.Repeat([]byte{9}, 16)
	for _, c := range []struct {
		name string
		role Role
		byte byte
		peer []byte
	}{{"client", RoleClient, 0x43, nil}, {"server", RoleServer, 0x53, peer}} {
		t.Run(c.name, func(t *testing.T) {
			b := bytes.Clone(signed)
			if err := SignKeyed(b, key, c.role, header, c.peer); err != nil {
				t.Fatal(err)
			}
			if err := SignMD5(b); err != nil { // does not change the bytes under the MAC
				t.Fatal(err)
			}
			message := append(append(append([]byte{c.byte}, header...), covered...), c.peer...)
			p, err := DecodeAuthParams(b)
			if err != nil {
				t.Fatal(err)
			}
			same(t, p.Keyed.MAC[:], hmacByHand(key, message))
			want(t, VerifyKeyed(b, key, c.role, header, c.peer), fine)
			tamper(t, b, key, c.role, header, c.peer)
		})
	}
}

// tamper changes every byte that the MAC covers, one at a time.
func tamper(t *testing.T, b, key []byte, role Role, header, peer []byte) {
	t.Helper()
	signature := bytes.Index(b, []byte{3, 16})
	flip := func(p []byte, i int) []byte { p = bytes.Clone(p); p[i] ^= 0x40; return p }
	for i := range b {
		o := denied
		if i >= signature+2 && i < signature+18 {
			o = fine
		}
		want(t, VerifyKeyed(flip(b, i), key, role, header, peer), o)
	}
	for i := range header {
		want(t, VerifyKeyed(b, key, role, flip(header, i), peer), denied)
	}
	for i := range peer {
		want(t, VerifyKeyed(b, key, role, header, flip(peer, i)), denied)
	}
	want(t, VerifyKeyed(b, flip(key, 0), role, header, peer), denied)
	want(t, VerifyKeyed(b, key, role^RoleClient^RoleServer, header, peer), denied)
	want(t, VerifyKeyed(b, key, role, header[:47], peer), denied)
}

// Source: [OP-46b]
func TestSignKeyedMissing(t *testing.T) {
	header := make([]byte, HeaderSize)
	for _, rows := range [][]row{{keyRow, signatureRow, endRow}, {keyRow}} {
		b := golden(t, clientRows(rows...)...)
		want(t, SignKeyed(b, nil, RoleClient, header, nil), denied)
		want(t, VerifyKeyed(b, nil, RoleClient, header, nil), denied)
	}
}
