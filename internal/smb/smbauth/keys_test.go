package smbauth

import (
	"crypto/sha512"
	"encoding/hex"
	"testing"
)

// The examples that Microsoft published with its descriptions of SMB 3's keys and encryption.
//
// Source: [MS-SMB2 3.1.4.2], "SMB 2 and SMB 3 security in Windows 10: the
// anatomy of signing and cryptographic keys", "Encryption in SMB 3.0: A protocol
// perspective", "SMB 3.1.1 Encryption in Windows 10"
func TestDeriveKeysExamples(t *testing.T) {
	preauth := [64]byte(unhex(t, `0DD13628CC3ED218EF9DF9772D436D0887AB9814BFAE63A80AA845F36909DB79
		28622DDDAD522D9751640A459762C5A9D6BB084CBB3CE6BDADEF5D5BCE3C6C01`))
	other := [64]byte(unhex(t, `B23F3CBFD69487D9832B79B1594A367CDD950909B774C3A4C412B4FCEA9EDDDB
		A7DB256BA2EA30E977F11F9B113247578E0E915C6D2A513B8F2FCA5707DC8770`))
	for _, c := range []struct {
		dialect                       uint16
		cipher                        Cipher
		preauth                       [64]byte
		key, sign, app, toServ, toCli string
	}{
		{
			Dialect300, AES128CCM, preauth, "7CD451825D0450D235424E44BA6E78CC", "0B7E9C5CAC36C0F6EA9AB275298CEDCE",
			"BB23A4575AA26C721AF525AF15A87B4F", "FAD27796665B313EBB578F388632B4F7", "B0F0427F7CEB416D1D9DCC0CD4F99447",
		},
		{
			Dialect302, AES128CCM, preauth, "7CD451825D0450D235424E44BA6E78CC", "0B7E9C5CAC36C0F6EA9AB275298CEDCE",
			"BB23A4575AA26C721AF525AF15A87B4F", "FAD27796665B313EBB578F388632B4F7", "B0F0427F7CEB416D1D9DCC0CD4F99447",
		},
		{
			Dialect302, NoCipher, preauth, "7CD451825D0450D235424E44BA6E78CC", "0B7E9C5CAC36C0F6EA9AB275298CEDCE",
			"BB23A4575AA26C721AF525AF15A87B4F", "", "",
		},
		{
			Dialect300, AES128CCM, preauth, "B4546771B515F766A86735532DD6C4F0", "F773CD23C18FD1E08EE510CADA7CF852",
			"77432F808CE99156B5BC6A3676D730D1", "261B72350558F2E9DCF613070383EDBF", "8FE2B57EC34D2DB5B1A9727F526BBDB5",
		},
		{
			Dialect311, AES128GCM, preauth, "270E1BA896585EEB7AF3472D3B4C75A7", "73FE7A9A77BEF0BDE49C650D8CCB5F76",
			"6D7AD7954E9EC61E907B4D473DC178FF", "629BCBC54422A0F572B97F45989B6073", "E2AF0DCEFAC68DA71A0DFBD0D1350D74",
		},
		{
			Dialect311, AES128CCM, other, "419FDDF34C1E001909D362AE7FB6AF79", "",
			"", "A2F5E80E5D59103034F32E52F698E5EC", "748C50868C90F302962A5C35F5F9A8BF",
		},
		{ // OpenSSL's KBKDF, since no example is published
			Dialect311, AES256GCM, other, "419FDDF34C1E001909D362AE7FB6AF79", "", "",
			"CB61EB110446FBCAEB6A83BEEDB92779130B833A706E5B3495879D52195B90ED", "F8CAE3069FFCDC7662E2941207AF463614D520A1A204AAF6B9EAD136DE931111",
		},
	} {
		got := DeriveKeys(c.dialect, c.cipher, unhex(t, c.key), c.preauth)
		want := SessionKeys{Signing: got.Signing, Application: got.Application}
		if c.sign != "" {
			want.Signing = key16(t, c.sign)
		}
		if c.app != "" {
			want.Application = key16(t, c.app)
		}
		copy(want.ClientToServer[:], unhex(t, c.toServ))
		copy(want.ServerToClient[:], unhex(t, c.toCli))
		if got != want {
			t.Errorf("dialect %#x: %x, want %x", c.dialect, got, want)
		}
	}
	k := key16(t, "7CD451825D0450D235424E44BA6E78CC")
	if got := DeriveKeys(Dialect210, AES128CCM, k[:], preauth); got != (SessionKeys{Signing: k, Application: k}) {
		t.Errorf("dialect 2.1: %x", got)
	}
}

// 40 bytes need two rounds; the values come from OpenSSL's KBKDF (counter,
// HMAC-SHA-256, r = 32, label "label", context "context").
//
// Source: [NIST SP 800-108 §5.1]
func TestKDFAcrossRounds(t *testing.T) {
	key := unhex(t, "000102030405060708090a0b0c0d0e0f")
	got := hex.EncodeToString(kdf(key, []byte("label"), []byte("context"), 40))
	if want := "ea7d2f723c7c89aff21be0deb82b56a4a8245b01afe4a26f5bd4cf6bafd59f0337835beb381a6598"; got != want {
		t.Errorf("kdf = %s, want %s", got, want)
	}
}

// Source: [MS-SMB2 3.1.4.4.1]
func TestPreauthHashOfKnownMessages(t *testing.T) {
	var h PreauthHash
	h.Update([]byte("abc"))
	if want := sha512.Sum512(append(make([]byte, 64), "abc"...)); h != want {
		t.Errorf("hash = %x, want %x", h, want)
	}
	before := h
	h.Update(nil)
	if want := sha512.Sum512(before[:]); h != want {
		t.Errorf("second hash = %x, want %x", h, want)
	}
}
