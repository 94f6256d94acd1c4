package wire

import (
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"

	"lwio/internal/smb/smbwire"
	"pgregory.net/rapid"
)

const uncName = `\\h\pipe\lwio`

var (
	keyRows = []row{
		{"ResumeKey", "0102030405060708"},
		{"Timestamp", "1112131415161718"},
		{"Pid", "2122232425262728"},
	}
	contextRow = row{"Context", "5c005c0068005c0070006900700065005c006c00770069006f00"}
	exampleKey = [24]byte{
		1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
		0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,
	}
)

func keyBytes(tb testing.TB, rest ...row) []byte {
	tb.Helper()
	return golden(tb, append(append([]row(nil), keyRows...), rest...)...)
}

// Source: [LWIO §Discovery], [LWIO claim 8], [MS-SMB2 2.2.32.3], [OP-9], [OP-31], [OP-32], [OP-33]
func TestResumeKeyMatchesGoldenBytes(t *testing.T) {
	for _, c := range []struct {
		name    string
		context string
		bytes   []byte
	}{
		{"with LWIO", uncName, keyBytes(t, row{"ContextLength", "1a000000"}, contextRow)},
		{"without", "", keyBytes(t, row{"ContextLength", "00000000"}, row{"Context", "00000000"})},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := ResumeKey{Key: exampleKey, Context: c.context}
			same(t, encodeKey(k), c.bytes)
			got, err := DecodeResumeKey(c.bytes)
			if err != nil || got != k {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	full := keyBytes(t, row{"ContextLength", "1a000000"}, contextRow)
	refusesPrefixes(t, full, func(b []byte) error { _, err := DecodeResumeKey(b); return err })
}

// Source: [OP-30], [OP-31]
func TestResumeKeyDecode(t *testing.T) {
	for _, c := range []struct {
		name    string
		rest    []row
		context string
		want    outcome
	}{
		{"no context, 28 bytes", []row{{"ContextLength", "00000000"}}, "", fine},
		{"no context, anything after it", []row{{"ContextLength", "00000000"}, {"junk", "ffffffffffffffffffffffff"}}, "", fine},
		{"padded to 8", []row{{"ContextLength", "1a000000"}, contextRow, {"padding", "0000"}}, uncName, fine},
		{"ContextLength of 16 bits", []row{{"ContextLength", "1a00"}, contextRow}, uncName, ended},
		{"ContextLength of 16 bits, no context", []row{{"ContextLength", "0000"}}, "", ended},
		{"junk after the context", []row{{"ContextLength", "1a000000"}, contextRow, {"junk", "0000000000000000"}}, "", ended},
		{"cut off", []row{{"ContextLength", "1c000000"}, contextRow}, "", ended},
		{"4 GiB", []row{{"ContextLength", "ffffffff"}, contextRow}, "", ended},
		{"half a character", []row{{"ContextLength", "03000000"}, {"Context", "5c005c"}}, "", ended},
		{"NUL within", []row{{"ContextLength", "06000000"}, {"Context", "5c0000005c00"}}, "", ended},
		{"half a surrogate", []row{{"ContextLength", "04000000"}, {"Context", "00d85c00"}}, "", ended},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := keyBytes(t, c.rest...)
			k, err := DecodeResumeKey(b)
			want(t, err, c.want)
			if err == nil && (k.Key != exampleKey || k.Context != c.context) {
				t.Errorf("%+v", k)
			}
		})
	}
}

// drawName makes a name of at most units UTF-16 units.
func drawName(t *rapid.T, label string, units int) string {
	return rapid.StringOfN(rapid.RuneFrom([]rune{'a', '\\', 'é', '世', '𝄞'}), 0, units/2, -1).Draw(t, label)
}

// The SMB server's encoding decodes.
func TestResumeKeyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := ResumeKey{Context: drawName(t, "context", 300)}
		copy(k.Key[:], rapid.SliceOfN(rapid.Byte(), 24, 24).Draw(t, "key"))
		if got, err := DecodeResumeKey(encodeKey(k)); err != nil || got != k {
			t.Fatalf("%+v, %v", got, err)
		}
	})
}

// encodeKey encodes k as the SMB server does.
func encodeKey(k ResumeKey) []byte {
	var context []byte
	for _, u := range utf16.Encode([]rune(k.Context)) {
		context = binary.LittleEndian.AppendUint16(context, u)
	}
	answer := smbwire.ResumeKey{Key: k.Key, Context: context}
	return answer.AppendTo(nil)
}

func FuzzResumeKey(f *testing.F) {
	for _, s := range []string{"", uncName, strings.Repeat("x", 300)} {
		f.Add(encodeKey(ResumeKey{Key: exampleKey, Context: s}))
	}
	f.Add(keyBytes(f, row{"ContextLength", "1a00"}, contextRow))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := DecodeResumeKey(b)
		if err != nil {
			want(t, err, ended)
			return
		}
		if got, err := DecodeResumeKey(encodeKey(k)); err != nil || got != k {
			t.Fatalf("%+v, %v instead of %+v", got, err, k)
		}
	})
}
