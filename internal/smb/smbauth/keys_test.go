package smbauth

import (
	"crypto/sha512"
	"encoding/hex"
	"testing"
)

// The examples that Microsoft published with its description of SMB 3's keys.
//
// Source: [MS-SMB2 3.1.4.2], "SMB 2 and SMB 3 security in Windows 10: the
// anatomy of signing and cryptographic keys", appendix
func TestDeriveKeysExamples(t *testing.T) {
	preauth := [64]byte(unhex(t, `0DD13628CC3ED218EF9DF9772D436D0887AB9814BFAE63A80AA845F36909DB79
		28622DDDAD522D9751640A459762C5A9D6BB084CBB3CE6BDADEF5D5BCE3C6C01`))
	for _, c := range []struct {
		dialect                       uint16
		key, sign, app, toServ, toCli string
	}{
		{
			Dialect300, "7CD451825D0450D235424E44BA6E78CC", "0B7E9C5CAC36C0F6EA9AB275298CEDCE",
			"BB23A4575AA26C721AF525AF15A87B4F", "FAD27796665B313EBB578F388632B4F7", "B0F0427F7CEB416D1D9DCC0CD4F99447",
		},
		{
			Dialect302, "7CD451825D0450D235424E44BA6E78CC", "0B7E9C5CAC36C0F6EA9AB275298CEDCE",
			"BB23A4575AA26C721AF525AF15A87B4F", "FAD27796665B313EBB578F388632B4F7", "B0F0427F7CEB416D1D9DCC0CD4F99447",
		},
		{
			Dialect311, "270E1BA896585EEB7AF3472D3B4C75A7", "73FE7A9A77BEF0BDE49C650D8CCB5F76",
			"6D7AD7954E9EC61E907B4D473DC178FF", "629BCBC54422A0F572B97F45989B6073", "E2AF0DCEFAC68DA71A0DFBD0D1350D74",
		},
	} {
		want := SessionKeys{
			Signing: key16(t, c.sign), Application: key16(t, c.app),
			ClientToServer: key16(t, c.toServ), ServerToClient: key16(t, c.toCli),
		}
		if got := DeriveKeys(c.dialect, key16(t, c.key), preauth); got != want {
			t.Errorf("dialect %#x: %x, want %x", c.dialect, got, want)
		}
	}
	k := key16(t, "7CD451825D0450D235424E44BA6E78CC")
	if got := DeriveKeys(Dialect210, k, preauth); got != (SessionKeys{Signing: k, Application: k}) {
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
