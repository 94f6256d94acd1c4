package smbauth

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"
)

// The published example: user "User", password "Password", domain "Domain",
// time 0, client challenge AA.., server challenge 0123456789ABCDEF.
//
// Source: [MS-NLMP 4.2.1], [MS-NLMP 4.2.4]
func TestNTLMv2Example(t *testing.T) {
	hash := NTHash("Password")
	if got := hex.EncodeToString(hash[:]); got != "a4f49c406510bdcab6824ee7c30fd852" {
		t.Fatalf("NT hash = %s", got)
	}
	owf := ntowfv2(hash, "Domain", "User")
	if got := hex.EncodeToString(owf[:]); got != "0c868a403bfd7a93a3001ef22ef02e3f" {
		t.Fatalf("NTOWFv2 = %s", got)
	}
	pairs := []avPair{{avNbDomainName, appendUTF16(nil, "Domain")}, {avNbComputerName, appendUTF16(nil, "Server")}}
	temp := appendClientChallenge(nil, 0, [8]byte(bytes.Repeat([]byte{0xAA}, 8)), pairs)
	want := unhex(t, `0101000000000000 0000000000000000 aaaaaaaaaaaaaaaa 00000000
		02000c00 44006f006d00610069006e00 01000c00 530065007200760065007200 00000000 00000000`)
	if !bytes.Equal(temp, want) {
		t.Fatalf("client challenge = %x, want %x", temp, want)
	}
	proof := ntProof(owf, [8]byte(unhex(t, "0123456789abcdef")), temp)
	if got := hex.EncodeToString(proof[:]); got != "68cd0ab851e51c96aabc927bebef6a1c" {
		t.Fatalf("NTProofStr = %s", got)
	}
	base := hmacMD5(owf[:], proof[:])
	if got := hex.EncodeToString(base[:]); got != "8de40ccadbc14a82f15cb0ad0de95ca3" {
		t.Fatalf("session base key = %s", got)
	}
	exported := [16]byte(bytes.Repeat([]byte{0x55}, 16))
	enc := rc4Key(base, exported)
	if got := hex.EncodeToString(enc[:]); got != "c5dad2544fc9799094ce1ce90bc9d03e" {
		t.Fatalf("encrypted session key = %s", got)
	}
	if dec := rc4Key(base, enc); dec != exported {
		t.Fatalf("decrypted session key = %x", dec)
	}
}

// The published example seals "Plaintext" before it signs, so its signature is
// under the key stream from byte 18 on.
//
// Source: [MS-NLMP 4.2.4.4]
func TestNTLMSignatureExample(t *testing.T) {
	exported := [16]byte(bytes.Repeat([]byte{0x55}, 16))
	s := newNTLMSigner(exported, true, true)
	if got := hex.EncodeToString(s.signKey[:]); got != "4788dc861b4782f35d43fd98fe1a2d39" {
		t.Fatalf("signing key = %s", got)
	}
	seal := deriveMD5(exported, magicClientSeal)
	if got := hex.EncodeToString(seal[:]); got != "59f600973cc4960a25480a7c196e4c58" {
		t.Fatalf("sealing key = %s", got)
	}
	text := appendUTF16(nil, "Plaintext")
	sealed := make([]byte, len(text))
	s.seal.XORKeyStream(sealed, text)
	if got := hex.EncodeToString(sealed); got != "54e50165bf1936dc996020c1811b0f06fb5f" {
		t.Fatalf("sealed = %s", got)
	}
	mic := s.mic(text)
	if got := hex.EncodeToString(mic[:]); got != "010000007fb38ec5c55d497600000000" {
		t.Fatalf("signature = %s", got)
	}
}

// Source: [MS-NLMP 3.4.4.2]
func TestNTLMSignerCountsAndRefuses(t *testing.T) {
	key := key16(t, "000102030405060708090a0b0c0d0e0f")
	for _, kx := range []bool{false, true} {
		tx, rx := newNTLMSigner(key, false, kx), newNTLMSigner(key, false, kx)
		for i := range 3 {
			mic := tx.mic([]byte("text"))
			if mic[12] != byte(i) {
				t.Errorf("sequence number %d, want %d", mic[12], i)
			}
			if !rx.verify([]byte("text"), mic[:]) {
				t.Errorf("signature %d (key exchange %v) refused", i, kx)
			}
		}
		mic := newNTLMSigner(key, true, kx).mic([]byte("text"))
		if newNTLMSigner(key, false, kx).verify([]byte("text"), mic[:]) {
			t.Error("signature of the other direction accepted")
		}
		if newNTLMSigner(key, true, kx).verify([]byte("text"), mic[:15]) {
			t.Error("short signature accepted")
		}
	}
}

// Source: [MS-NLMP 2.2.2.8]
func TestLMAndNTLMv1ResponsesAreWeak(t *testing.T) {
	for _, n := range []int{1, 23, 24} {
		if _, _, _, err := decodeNTLMv2Response(make([]byte, n)); !errors.Is(err, ErrWeak) {
			t.Errorf("response of %d bytes: %v, want ErrWeak", n, err)
		}
	}
	if _, _, _, err := decodeNTLMv2Response(make([]byte, 60)); !errors.Is(err, ErrToken) {
		t.Errorf("response of version 0: %v, want ErrToken", err)
	}
}

func TestUpperIsPerCharacter(t *testing.T) {
	if got := upper("straße-é"); got != "STRAßE-É" {
		t.Errorf("upper = %q", got)
	}
}
