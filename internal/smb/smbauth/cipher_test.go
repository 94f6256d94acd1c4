package smbauth

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"lwio/internal/smb/smbwire"
)

// transforms are encrypted messages of Windows, with the published keys.
//
// Source: [MS-SMB2 3.1.4.3], "Encryption in SMB 3.0: A protocol perspective", "SMB 3.1.1
// Encryption in Windows 10"
var transforms = []struct {
	name             string
	cipher           Cipher
	key, wire, plain string
}{
	{
		"3.0 WRITE request", AES128CCM, "261B72350558F2E9DCF613070383EDBF",
		`FD534D4281A286535415445DAE393921E44FA42E66E69A111892584FB5ED524A744DA3EE87000000000001001100001400E40800
		25C8FEE16605A437832D1CD52DA9F4645333482A175FE5384563F45FCDAFAEF38BC62BA4D5C62897996625A44C29BE5658DE2E61
		17585779E7B59FFD971278D08580D7FA899E410E910EABF5AA1DB43050B33B49182637759AC15D84BFCDF5B6B238993C0F4CF4D6
		012023F6C627297075D84B7803912D0A9639634453595EF3E33FFE4E7AC2AB`,
		`FE534D4240000100000000000900400008000000000000000400000000000000FFFE0000010000001100001400E4080000000000
		000000000000000000000000310070001700000000000000000000001501000039000002010000003902000000000000000000007
		000000000000000536D623320656E6372797074696F6E2074657374696E67`,
	},
	{
		"3.0 READ response", AES128CCM, "8FE2B57EC34D2DB5B1A9727F526BBDB5",
		`FD534D42ABD518B68C2F04D7879F482B689EB83F87000000000000001100001400E4080067000000000001001100001400E40800
		493D6FE2BDBEB435CF5F546970C7BB57BF20E713C75A3D045507E0D68E5C0346659D6FFB8AC1504A786CA2BB89C9E7FE4F313E91
		0A04180D2D0EA7DF636329E5A3285984500EF86FE9D55DA4FAB9531CFDD4C551D47F3C73124BB4590A45052B694048B991CCF5`,
		`FE534D4240000100000000000800210009000000000000000500000000000000FFFE0000010000001100001400E4080000000000
		00000000000000000000000011005000170000000000000000000000536D623320656E6372797074696F6E2074657374696E67`,
	},
	{
		"3.1.1 WRITE request", AES128GCM, "A2F5E80E5D59103034F32E52F698E5EC",
		`FD534D42BD73D97D2BC9001BCAFAC0FDFF5FEEBCC7D6822D269CAF48904C664C0000000087000000000001002500000000100000
		6ECDD2A7AFC7B47763057A041B8FD4DAFFE990B70C9E09D36C084E02D14EF247F8BDE38ACF6256F8B1D3B56F77FBDEB312FEA5E9
		2CBCC1ED8FB2EBBFAA75E49A4A394BB44576545567C24D4C014D47C9FBDFDAFD2C4F9B72F8D256452620A299F48E29E53D6B61D1
		C13A19E91AF013F00D17E3ABC2FC3D36C8C1B6B93973253852DBD442E46EE8`,
		`FE534D4240000100000000000900010008000000000000000500000000000000FFFE000001000000250000000010000000000000
		000000000000000000000000310070001700000000000000000000000600000004000000010000000400000000000000000000007
		000000000000000536D623320656E6372797074696F6E2074657374696E67`,
	},
	{
		"3.1.1 WRITE response", AES128GCM, "748C50868C90F302962A5C35F5F9A8BF",
		`FD534D42ACBE1CB7ED343ADF1725EF144D90D4B0E06831DD2E8EB7B400000000000000005000000000000100250000000010000
		026BBBF949983A6C1C796559D0F2C510CB651D1F7B6AC8DED32A2A0B8F2D793A815C6F6B848D69767A215841A42D400AE6DDB5F0
		B44173A014973321FDD7950DA6179159B82E03C9E18A050FF0EA1C967`,
		`FE534D4240000100000000000900010001000000000000000500000000000000FFFE000001000000250000000010000000000000
		00000000000000000000000011000000170000000000000000000000`,
	},
}

func cipherKeyOf(tb testing.TB, s string) (k CipherKey) {
	copy(k[:], unhex(tb, s))
	return k
}

// Source: [MS-SMB2 3.1.4.3], [MS-SMB2 3.1.5.3]
func TestDecryptMessagesOfWindows(t *testing.T) {
	for _, x := range transforms {
		got, err := NewDecrypter(x.cipher, cipherKeyOf(t, x.key)).Decrypt(unhex(t, x.wire))
		if err != nil || !bytes.Equal(got, unhex(t, x.plain)) {
			t.Errorf("%s: %x, %v", x.name, got, err)
		}
	}
}

// Encrypt makes the published bytes, given the published nonces.
//
// Source: [MS-SMB2 3.1.4.3]
func TestEncryptAsWindowsDoes(t *testing.T) {
	for _, x := range transforms {
		want := unhex(t, x.wire)
		e := NewEncrypter(x.cipher, cipherKeyOf(t, x.key))
		plain := unhex(t, x.plain)
		sealed := e.aead.Seal(nil, transformNonce(want, e.aead), plain, transformData(want))
		if !bytes.Equal(sealed[:len(plain)], want[smbwire.TransformHeaderSize:]) || !bytes.Equal(sealed[len(plain):], transformTag(want)) {
			t.Errorf("%s: %x", x.name, sealed)
		}
	}
}

// sampleTransform has room for a header, n bytes of message, and the tag.
func sampleTransform(n int) []byte {
	b := make([]byte, smbwire.TransformHeaderSize+n, smbwire.TransformHeaderSize+n+TagSize)
	for i := range n {
		b[smbwire.TransformHeaderSize+i] = byte(i)
	}
	return b
}

// Every cipher decrypts its own messages in place. A change of any bit, or of the length, is
// refused, and leaves no decrypted byte.
//
// Source: [MS-SMB2 3.1.5.3]
func TestDecryptRefusesModifiedMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(Ciphers).Draw(t, "cipher")
		key := CipherKey(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "key"))
		n := rapid.IntRange(0, 400).Draw(t, "n")
		msg := sampleTransform(n)
		plain := bytes.Clone(msg[smbwire.TransformHeaderSize:])
		if err := NewEncrypter(c, key).Encrypt(msg, 7); err != nil {
			t.Fatal(err)
		}
		d := NewDecrypter(c, key)
		bad := bytes.Clone(msg)
		at := rapid.IntRange(0, len(bad)-1).Draw(t, "at")
		bad[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		_, err := d.Decrypt(bad)
		switch reserved := at >= 40 && at < 42; {
		case !errors.Is(err, ErrDecryption):
			t.Fatalf("%v: change at %d: %v (reserved: %v)", c, at, err, reserved)
		case n > 16 && bytes.Contains(bad, plain):
			t.Fatal("decrypted bytes are left")
		}
		for _, other := range [][]byte{msg[:len(msg)-min(1, n)], append(bytes.Clone(msg), 0), msg[:smbwire.TransformHeaderSize-1]} {
			if _, err := d.Decrypt(bytes.Clone(other)); len(other) != len(msg) && !errors.Is(err, ErrDecryption) {
				t.Fatalf("%d of %d bytes: %v", len(other), len(msg), err)
			}
		}
		got, err := d.Decrypt(msg)
		if err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("%v: %v", c, err)
		}
		if n > 0 && &got[0] != &msg[smbwire.TransformHeaderSize] {
			t.Fatal("not in place")
		}
	})
}

// The key of the other direction, and another key, do not decrypt a message: it cannot be
// sent back to its sender.
func TestDirectionsHaveKeysOfTheirOwn(t *testing.T) {
	for _, c := range Ciphers {
		k := DeriveKeys(Dialect311, c, make([]byte, 16), [64]byte{2})
		msg := sampleTransform(100)
		if err := NewEncrypter(c, k.ClientToServer).Encrypt(msg, 7); err != nil {
			t.Fatal(err)
		}
		if _, err := NewDecrypter(c, k.ServerToClient).Decrypt(msg); !errors.Is(err, ErrDecryption) {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// Concurrent messages have nonces that differ. Each nonce is the number of blocks before.
//
// Source: [MS-SMB2 3.1.4.3]
func TestNoncesNeverRepeat(t *testing.T) {
	e := NewEncrypter(AES128GCM, CipherKey{})
	var mu sync.Mutex
	seen := make(map[[16]byte]int)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 500 {
				msg := sampleTransform(64 + (i*j)%100)
				if err := e.Encrypt(msg, 7); err != nil {
					t.Error(err)
				}
				mu.Lock()
				seen[[16]byte(msg[20:36])]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != 8*500 {
		t.Errorf("%d nonces of %d messages", len(seen), 8*500)
	}
	first := NewEncrypter(AES128CCM, CipherKey{})
	for _, want := range []uint64{0, 6, 12} {
		msg := sampleTransform(64)
		if err := first.Encrypt(msg, 7); err != nil || binary.LittleEndian.Uint64(msg[20:]) != want {
			t.Errorf("nonce %x, want %d; %v", msg[20:36], want, err)
		}
	}
}

// A key that has encrypted all the data that it may encrypts nothing more, however often it
// is asked: the count of blocks does not wrap.
func TestUsedUpKeyEncryptsNothing(t *testing.T) {
	for _, c := range Ciphers {
		e := NewEncrypter(c, CipherKey{})
		e.blocks.Store(maxBlocks - 6)
		if err := e.Encrypt(sampleTransform(65), 7); err != nil {
			t.Errorf("%v: the last message: %v", c, err)
		}
		for range 3 {
			msg := sampleTransform(65)
			if err := e.Encrypt(msg, 7); !errors.Is(err, ErrKeyUsedUp) || !bytes.Equal(msg, sampleTransform(65)) {
				t.Errorf("%v: after the last message: %v", c, err)
			}
		}
		if n := e.blocks.Load(); n != maxBlocks {
			t.Errorf("%v: %d blocks", c, n)
		}
	}
}

// GCM allocates nothing for a message, CCM the state of its key stream.
func TestEncryptionAllocates(t *testing.T) {
	for _, c := range Ciphers {
		e, d := NewEncrypter(c, CipherKey{}), NewDecrypter(c, CipherKey{})
		msg := sampleTransform(4096)
		n := testing.AllocsPerRun(200, func() {
			if err := e.Encrypt(msg, 7); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Decrypt(msg); err != nil {
				t.Fatal(err)
			}
		})
		most := 0.0
		if c == AES128CCM || c == AES256CCM {
			most = 2
		}
		if n > most && !raceEnabled {
			t.Errorf("%v: %v allocations for a message there and back", c, n)
		}
	}
}

// Source: [MS-SMB2 2.2.3.1.2]
func TestCipherNames(t *testing.T) {
	for c, want := range map[Cipher]string{NoCipher: "none", AES128CCM: "AES-128-CCM", AES256GCM: "AES-256-GCM", 9: "unknown cipher"} {
		if got := c.String(); got != want {
			t.Errorf("%d: %q", c, got)
		}
	}
}

// FuzzDecrypt gives arbitrary messages to a decrypter: it accepts none, and leaves no decrypted
// byte.
//
// Source: [MS-SMB2 3.1.5.3]
func FuzzDecrypt(f *testing.F) {
	for _, x := range transforms {
		f.Add(uint16(x.cipher), unhex(f, x.wire))
	}
	f.Add(uint16(AES256GCM), sampleTransform(80))
	f.Fuzz(func(t *testing.T, c uint16, msg []byte) {
		if Cipher(c).keySize() == 0 {
			return
		}
		before := bytes.Clone(msg)
		if _, err := NewDecrypter(Cipher(c), CipherKey{1, 2, 3}).Decrypt(msg); !errors.Is(err, ErrDecryption) {
			t.Fatalf("%v: %v", Cipher(c), err)
		}
		if !bytes.Equal(msg, before) { // the cipher has zeroed the decrypted bytes
			body := msg[min(len(msg), smbwire.TransformHeaderSize):]
			if !bytes.Equal(body, make([]byte, len(body))) {
				t.Fatalf("%v: %x is left of %x", Cipher(c), msg, before)
			}
		}
	})
}

func BenchmarkEncrypt(b *testing.B) {
	for _, c := range Ciphers {
		for _, n := range []int{4 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%v/%dKiB", c, n>>10), func(b *testing.B) {
				e := NewEncrypter(c, CipherKey{1})
				msg := sampleTransform(n)
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					if err := e.Encrypt(msg, 7); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
