package smbauth

import (
	"bytes"
	"crypto/aes"
	"testing"

	"pgregory.net/rapid"
)

// newTestCCM returns CCM over AES with a key.
func newTestCCM(tb testing.TB, key []byte, nonceSize, tagSize int) *ccm {
	tb.Helper()
	block, err := aes.NewCipher(key)
	if err != nil {
		tb.Fatal(err)
	}
	return newCCM(block, nonceSize, tagSize).(*ccm)
}

// ccmVectors are published examples.
var ccmVectors = []struct{ name, key, nonce, data, plain, want string }{
	{
		"RFC 3610 packet vector 1", "c0c1c2c3c4c5c6c7c8c9cacbcccdcecf", "00000003020100a0a1a2a3a4a5", "0001020304050607",
		"08090a0b0c0d0e0f101112131415161718191a1b1c1d1e",
		"588c979a61c663d2f066d0c2c0f989806d5f6b61dac384 17e8d12cfdf926e0",
	},
	{
		"RFC 3610 packet vector 2", "c0c1c2c3c4c5c6c7c8c9cacbcccdcecf", "00000004030201a0a1a2a3a4a5", "0001020304050607",
		"08090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
		"72c91a36e135f8cf291ca894085c87e3cc15c439c9e43a3b a091d56e10400916",
	},
	{
		"RFC 3610 packet vector 3", "c0c1c2c3c4c5c6c7c8c9cacbcccdcecf", "00000005040302a0a1a2a3a4a5", "0001020304050607",
		"08090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20",
		"51b1e5f44a197d1da46b0f8e2d282ae871e838bb64da859657 4adaa76fbd9fb0c5",
	},
	{
		"RFC 3610 packet vector 12", "c0c1c2c3c4c5c6c7c8c9cacbcccdcecf", "0000000e0d0c0ba0a1a2a3a4a5", "000102030405060708090a0b",
		"0c0d0e0f101112131415161718191a1b1c1d1e1f20",
		"c0ffa0d6f05bdb67f24d43a4338d2aa4bed7b20e43 cd1aa31662e7ad65d6db",
	},
	{
		"RFC 3610 packet vector 13", "d7828d13b2b0bdc325a76236df93cc6b", "00412b4ea9cdbe3c9696766cfa", "0be1a88bace018b1",
		"08e8cf97d820ea258460e96ad9cf5289054d895ceac47c",
		"4cb97f86a2a4689a877947ab8091ef5386a6ffbdd080f8 e78cf7cb0cddd7b3",
	},
	{
		"RFC 3610 packet vector 24", "d7828d13b2b0bdc325a76236df93cc6b", "008d493b30ae8b3c9696766cfa", "6e37a6ef546d955d34ab6059",
		"abf21c0b02feb88f856df4a37381bce3cc128517d4",
		"f32905b88a641b04b9c9ffb58cc390900f3da12ab1 6dce9e82efa16da62059",
	},
	{
		"SP 800-38C example 1", "404142434445464748494a4b4c4d4e4f", "10111213141516", "0001020304050607",
		"20212223", "7162015b 4dac255d",
	},
	{
		"SP 800-38C example 2", "404142434445464748494a4b4c4d4e4f", "1011121314151617", "000102030405060708090a0b0c0d0e0f",
		"202122232425262728292a2b2c2d2e2f", "d2a1f0e051ea5f62081a7792073d593d 1fc64fbfaccd",
	},
	{
		"SP 800-38C example 3", "404142434445464748494a4b4c4d4e4f", "101112131415161718191a1b", "000102030405060708090a0b0c0d0e0f10111213",
		"202122232425262728292a2b2c2d2e2f3031323334353637",
		"e3b201a9f5b71a7a9b1ceaeccd97e70b6176aad9a4428aa5 484392fbc1b09951",
	},
}

// Source: [RFC 3610 §8], [NIST SP 800-38C]
func TestCCMOfPublishedExamples(t *testing.T) {
	for _, v := range ccmVectors {
		nonce, data, plain, want := unhex(t, v.nonce), unhex(t, v.data), unhex(t, v.plain), unhex(t, v.want)
		c := newTestCCM(t, unhex(t, v.key), len(nonce), len(want)-len(plain))
		if got := c.Seal(nil, nonce, plain, data); !bytes.Equal(got, want) {
			t.Errorf("%s: %x, want %x", v.name, got, want)
		}
		if got, err := c.Open(nil, nonce, want, data); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%s: decrypted %x, %v", v.name, got, err)
		}
	}
}

// Seal and Open give the same bytes in place as elsewhere. A change of any bit is refused, and
// no decrypted byte is left.
func TestCCMInPlaceRefusesChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom([]int{16, 32}).Draw(t, "key")
		block, err := aes.NewCipher(bytes.Repeat([]byte{7}, key))
		if err != nil {
			t.Fatal(err)
		}
		c := newCCM(block, 11, 16)
		nonce, data := bytes.Repeat([]byte{1}, 11), rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "data")
		plain := rapid.SliceOfN(rapid.Byte(), 0, 5000).Draw(t, "plain")
		want := c.Seal(nil, nonce, plain, data)
		room := append(make([]byte, 0, len(plain)+16), plain...)
		if got := c.Seal(room[:0], nonce, room, data); !bytes.Equal(got, want) || &got[0] != &room[:1][0] {
			t.Fatal("in place the result differs")
		}
		bad := bytes.Clone(want)
		at := rapid.IntRange(0, len(bad)-1).Draw(t, "at")
		bad[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, err := c.Open(bad[:0], nonce, bad, data); err == nil {
			t.Fatalf("change at %d not noticed", at)
		}
		if !bytes.Equal(bad[:len(plain)], make([]byte, len(plain))) {
			t.Fatal("decrypted bytes are left")
		}
		got, err := c.Open(want[:0], nonce, want, data)
		if err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("decrypted: %v", err)
		}
		if _, err := c.Open(nil, nonce, make([]byte, 15), nil); err == nil {
			t.Fatal("a message shorter than its tag was accepted")
		}
	})
}
