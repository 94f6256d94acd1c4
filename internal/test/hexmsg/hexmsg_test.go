package hexmsg

import (
	"bytes"
	"strings"
	"testing"

	"lwio/internal/test/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

func TestMakeAndMatch(t *testing.T) {
	f := Fields{}
	f.Set("Cookie", 8, 0x1122334455667788)
	f.Set("Fid", 2, 7)
	msg, err := f.Make("Cookie 0aFF Fid\n 01")
	if want := []byte{0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x0A, 0xFF, 7, 0, 1}; err != nil || !bytes.Equal(msg, want) {
		t.Fatalf("%x, %v", msg, err)
	}
	g := Fields{"Fid": {7, 0}}
	if err := g.Match("Answer:8 0a Any:1 Fid 01", msg); err != nil {
		t.Fatal(err)
	}
	clear(msg)
	if g.Uint("Answer") != 0x1122334455667788 || g.Uint("Any") != 0xFF {
		t.Errorf("%v", g)
	}
}

func TestMatchReportsMismatch(t *testing.T) {
	for template, cause := range map[string]string{
		"01 02":        "1 bytes behind the end",
		"01 02 03 04":  "04 at 3",
		"01 05 03":     "05 at 1 is 02",
		"01 A:3":       "A at 1: 2 bytes",
		"01 A:x":       "no size",
		"01 Other 03":  "neither",
		"01 A:1 A":     "A at 2 is 03 instead of 02",
		"0 1":          "neither",
		"01 02 03 A:0": "",
	} {
		err := Fields{}.Match(template, []byte{1, 2, 3})
		if (err == nil) != (cause == "") || err != nil && !strings.Contains(err.Error(), cause) {
			t.Errorf("%q: %v, want %q", template, err, cause)
		}
	}
	if _, err := (Fields{}).Make("01 A"); err == nil {
		t.Error("a field that is not there was made")
	}
}
