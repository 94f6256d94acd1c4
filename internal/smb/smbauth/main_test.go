package smbauth

import (
	"encoding/hex"
	"strings"
	"testing"

	"lwio/internal/test/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// unhex decodes hexadecimal text, ignoring white space.
func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func key16(tb testing.TB, s string) [16]byte {
	tb.Helper()
	return [16]byte(unhex(tb, s))
}
