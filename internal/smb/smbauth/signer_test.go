package smbauth

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"pgregory.net/rapid"
)

// Source: [RFC 4493 §4]
func TestCMACOfPublishedExamples(t *testing.T) {
	s := newCMACSigner(key16(t, "2b7e151628aed2a6abf7158809cf4f3c"))
	if got := hex.EncodeToString(s.k1[:]); got != "fbeed618357133667c85e08f7236a8de" {
		t.Errorf("K1 = %s", got)
	}
	if got := hex.EncodeToString(s.k2[:]); got != "f7ddac306ae266ccf90bc11ee46d513b" {
		t.Errorf("K2 = %s", got)
	}
	msg := unhex(t, `6bc1bee22e409f96e93d7e117393172a ae2d8a571e03ac9c9eb76fac45af8e51
		30c81c46a35ce411e5fbc1191a0a52ef f69f2445df4f9b17ad2b417be66c3710`)
	for n, want := range map[int]string{
		0:  "bb1d6929e95937287fa37d129b756746",
		16: "070a16b46b4d4144f79bdd9dd04a287c",
		40: "dfa66747de9ae63030ca32611497c827",
		64: "51f0bebf7e3b9d92fc49741779363cfe",
	} {
		got := s.mac(msg[:n])
		if hex.EncodeToString(got[:]) != want {
			t.Errorf("CMAC of %d bytes = %x, want %s", n, got, want)
		}
	}
}

// A SESSION_SETUP response of a Windows server, signed with AES-CMAC, from the
// published example.
//
// Source: [MS-SMB2 3.1.4.1], "the anatomy of signing and cryptographic keys"
func TestCMACOfRealMessage(t *testing.T) {
	msg := unhex(t, `FE534D4240000100000000000100800009000000000000000300000000000000FFFE000000000000
		1900000000100000EBE146DA120BA25FC3376A49DFE31BC10900000048001D00A11B3019A0030A01
		00A3120410010000003B453CDC3524164200000000`)
	s := NewSigner(AESCMAC, key16(t, "73FE7A9A77BEF0BDE49C650D8CCB5F76"))
	if !s.Verify(msg) {
		t.Error("signature of a real server refused")
	}
	signed := bytes.Clone(msg)
	s.Sign(signed)
	if !bytes.Equal(signed, msg) {
		t.Errorf("signed %x, want %x", signed[48:64], msg[48:64])
	}
}

// The SPNEGO token in that response ends the exchange.
//
// Source: [RFC 4178 §4.2.2]
func TestRealFinalToken(t *testing.T) {
	r, err := decodeNegTokenResp(unhex(t, "A11B3019A0030A0100A3120410010000003B453CDC3524164200000000"))
	if err != nil || r.State != stateAcceptCompleted || len(r.MIC) != 16 {
		t.Errorf("token %+v, %v", r, err)
	}
}

// sampleHeader is an SMB2 header with a body of n bytes.
func sampleHeader(n int, command uint16, flags uint32, id uint64) []byte {
	msg := make([]byte, smbHeaderSize+n)
	copy(msg, "\xfeSMB\x40")
	binary.LittleEndian.PutUint16(msg[offsetCommand:], command)
	binary.LittleEndian.PutUint32(msg[offsetFlags:], flags)
	binary.LittleEndian.PutUint64(msg[offsetMessageID:], id)
	return msg
}

// Source: [MS-SMB2 3.1.4.1]
func TestHMACSignerOfKnownMessage(t *testing.T) {
	key := key16(t, "000102030405060708090a0b0c0d0e0f")
	msg := sampleHeader(30, 1, 8, 5)
	h := hmac.New(sha256.New, key[:])
	h.Write(msg)
	want := h.Sum(nil)[:16]
	NewSigner(HMACSHA256, key).Sign(msg)
	if !bytes.Equal(msg[48:64], want) {
		t.Errorf("signature %x, want %x", msg[48:64], want)
	}
}

// Values from OpenSSL: AES-128-GCM of nothing, with the message as additional
// data and the nonce below.
//
// Source: [MS-SMB2 3.1.4.1]
func TestGMACNonceAndValue(t *testing.T) {
	key := key16(t, "000102030405060708090a0b0c0d0e0f")
	for _, c := range []struct {
		name    string
		command uint16
		flags   uint32
		nonce   string
	}{
		{"request", 8, 8, "0807060504030201 00000000"},
		{"response", 8, 9, "0807060504030201 01000000"},
		{"cancel", 12, 8, "0807060504030201 02000000"},
		{"async cancel", 12, 10, "0807060504030201 02000000"},
	} {
		msg := sampleHeader(20, c.command, c.flags, 0x0102030405060708)
		var nonce [12]byte
		if gmacNonce(&nonce, msg); !bytes.Equal(nonce[:], unhex(t, c.nonce)) {
			t.Errorf("%s: nonce %x, want %s", c.name, nonce, c.nonce)
		}
	}
	msg := sampleHeader(20, 8, 9, 0x0102030405060708)
	NewSigner(AESGMAC, key).Sign(msg)
	if got := hex.EncodeToString(msg[48:64]); got != "3125cde138f6f5fc77dd49dd0bf43eb6" {
		t.Errorf("signature = %s", got)
	}
}

// A change of any bit invalidates the signature, and Verify restores the message.
//
// Source: [MS-SMB2 3.1.5.1]
func TestVerifyRefusesModifiedMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alg := rapid.SampledFrom([]SigningAlgorithm{HMACSHA256, AESCMAC, AESGMAC}).Draw(t, "alg")
		key := [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "key"))
		msg := rapid.SliceOfN(rapid.Byte(), 64, 300).Draw(t, "msg")
		s := NewSigner(alg, key)
		s.Sign(msg)
		was := bytes.Clone(msg)
		if !s.Verify(msg) || !bytes.Equal(msg, was) {
			t.Fatalf("%v: own signature refused, or message changed", alg)
		}
		at := rapid.IntRange(0, len(msg)-1).Draw(t, "at")
		msg[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if s.Verify(msg) {
			t.Fatalf("%v: change at %d not noticed", alg, at)
		}
		if s.Verify(msg[:63]) {
			t.Fatalf("%v: short message accepted", alg)
		}
	})
}

// Source: [MS-SMB2 3.1.4.1]
func TestSigningDoesNotAllocate(t *testing.T) {
	for _, alg := range []SigningAlgorithm{HMACSHA256, AESCMAC, AESGMAC} {
		s := NewSigner(alg, [16]byte{1})
		msg := sampleHeader(4096, 9, 8, 1)
		n := testing.AllocsPerRun(200, func() {
			s.Sign(msg)
			if !s.Verify(msg) {
				t.Fatal("own signature refused")
			}
		})
		if n >= 1 && !raceEnabled {
			t.Errorf("%v: %v allocations per message", alg, n)
		}
	}
}

func BenchmarkSign(b *testing.B) {
	for _, alg := range []SigningAlgorithm{HMACSHA256, AESCMAC, AESGMAC} {
		b.Run(alg.String(), func(b *testing.B) {
			s := NewSigner(alg, [16]byte{1})
			msg := sampleHeader(1<<20, 9, 8, 1)
			b.SetBytes(int64(len(msg)))
			for b.Loop() {
				s.Sign(msg)
			}
		})
	}
}
