package smbwire

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

// text returns s in UTF-16LE, which must be possible.
func text(s string) []byte {
	b, err := UTF16(s)
	if err != nil {
		panic(err)
	}
	return b
}

// appender is a pointer to a structure that can be encoded.
type appender[T any] interface {
	*T
	AppendTo([]byte) []byte
}

// codec is a structure without its type: its recoding and the tests of its golden and random
// values.
type codec struct {
	recode func(b []byte) ([]byte, error)
	golden func(t *testing.T, g golden)
	random func(t *testing.T)
}

// golden is a value and its bytes on the wire.
type golden struct {
	name  string
	codec string
	value any
	wire  string
}
