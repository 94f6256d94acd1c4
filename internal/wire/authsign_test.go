package wire

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"testing"
)

// hmacByHand is HMAC-SHA-256 spelled out, for keys of at most a block.
func hmacByHand(key, message []byte) []byte {
	inner, outer := make([]byte, 64), make([]byte, 64)
	copy(inner, key)
	copy(outer, key)
	for i := range inner {
		inner[i] ^= 0x36
		outer[i] ^= 0x5C
	}
	sum := sha256.Sum256(append(inner, message...))
	sum = sha256.Sum256(append(outer, sum[:]...))
	return sum[:]
}

// Source: [LWIO §Connection Authentication], [OP-45]
func TestSignMD5(t *testing.T) {
	signed := clientRows(keyRow, row{"unknown", "f0 01 55"}, signatureRow, row{"SessionId", "0208 d1" + zeros6 + "d2"}, endRow)
	covered := clientRows(keyRow, row{"unknown", "f0 01 55"}, row{"SessionId", "0208 d1" + zeros6 + "d2"}, endRow)
	b := golden(t, signed...)
	if err := SignMD5(b); err != nil {
		t.Fatal(err)
	}
	sum := md5.Sum(golden(t, covered...))
	at := bytes.Index(b, []byte{3, 16})
	same(t, b[at+2:at+18], sum[:])
	want(t, VerifyMD5(b), fine)
	for i := range b {
		bad := bytes.Clone(b)
		bad[i] ^= 0x40
		want(t, VerifyMD5(bad), denied)
	}
}

// The MD5 of the client's parameters as they stand in the golden rows, which
// md5sum prints too.
//
// Source: [OP-45]
func TestSignMD5Vector(t *testing.T) {
	p := clientParams()
	b := p.AppendTo(nil)
	if err := SignMD5(b); err != nil {
		t.Fatal(err)
	}
	got, err := DecodeAuthParams(b)
	if err != nil {
		t.Fatal(err)
	}
	if s := hex.EncodeToString(got.Signature[:]); s != md5Vector {
		t.Errorf("%s instead of %s", s, md5Vector)
	}
}

// Source: [OP-45], [OP-50b]
func TestSignMD5Missing(t *testing.T) {
	for _, rows := range [][]row{{keyRow, endRow}, {keyRow, signatureRow}, {signatureRow, signatureRow, endRow}} {
		b := golden(t, clientRows(rows...)...)
		want(t, SignMD5(b), denied)
		want(t, VerifyMD5(b), denied)
	}
	want(t, SignMD5(nil), denied)
	want(t, VerifyMD5([]byte("LWIO")), denied)
}
