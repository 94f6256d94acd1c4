package iwarp

import (
	"bytes"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Source: [RFC 5044 §4.4], [RFC 5044 Appendix A]
func TestCRCVectors(t *testing.T) {
	zeros := strings.Repeat("00", 24)
	for _, c := range []struct{ input, crc string }{
		{"00000000 002a4143 00000000 00000000 00000001 00000000" + zeros, "52239983"},
		{"002a4143 00000000 00000000 00000001 00000000" + zeros, "b7243ec3"},
		{"002a4143 00000000 00000000 00000002 00000000 00000014" + zeros, "84925898"},
		{hex.EncodeToString([]byte("123456789")), "839206e3"},
	} {
		got := appendCRC(nil, crc32.Checksum(unhex(t, c.input), castagnoli))
		if !bytes.Equal(got, unhex(t, c.crc)) {
			t.Errorf("%s: %x, want %s", c.input, got, c.crc)
		}
	}
}

// Source: [RFC 5044 §4], [RFC 5044 §4.1]
func TestFPDU(t *testing.T) {
	for n, pad := range []int{2, 1, 0, 3, 2, 1, 0} {
		if padOf(n) != pad {
			t.Errorf("padOf(%d) = %d, want %d", n, padOf(n), pad)
		}
	}
	if fpduSize(42) != 48 || fpduSize(43) != 52 || ulpduForMSS(1460) != 1454 || ulpduForMSS(1461) != 1454 {
		t.Error("wrong sizes")
	}
	// An untagged segment without payload, and the CRC that the appendix has.
	u := unhex(t, "4143 00000000 00000000 00000001 00000000"+strings.Repeat("00", 24))
	want := append(append([]byte{0, 42}, u...), unhex(t, "b7243ec3")...)
	got := appendFPDU(nil, u, true)
	if !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	for i := range got {
		if _, _, err := decodeFPDU(got[:i], true); !errors.Is(err, errFPDUShort) {
			t.Fatalf("prefix %d: %v", i, err)
		}
	}
	for i := range got {
		bad := bytes.Clone(got)
		bad[i] ^= 4
		if _, _, err := decodeFPDU(bad, true); err == nil {
			t.Fatalf("flipped bit in byte %d not seen", i)
		}
	}
	if off := appendFPDU(nil, u[:3], false); !bytes.Equal(off, []byte{0, 3, 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0}) {
		t.Errorf("without CRC: %x", off)
	}
}

// Source: [RFC 5041 §4.2], [RFC 5041 §4.3], [RFC 5040 §4.1]
func TestSegmentGolden(t *testing.T) {
	last := func(s segment, l bool) segment {
		if l {
			s.ddp |= ddpLast
		}
		return s
	}
	for name, c := range map[string]struct {
		s    segment
		wire string
	}{
		"send":        {untaggedSegment(opSend, 0, 1, 0, true), "4143 00000000 00000000 00000001 00000000"},
		"send part":   {untaggedSegment(opSend, 0, 0xFFFFFFFF, 1482, false), "0143 00000000 00000000 ffffffff 000005ca"},
		"send event":  {untaggedSegment(opSendEvent, 0, 2, 0, true), "4145 00000000 00000000 00000002 00000000"},
		"terminate":   {untaggedSegment(opTerminate, 2, 1, 0, true), "4147 00000000 00000002 00000001 00000000"},
		"read":        {untaggedSegment(opReadRequest, 1, 1, 0, true), "4141 00000000 00000001 00000001 00000000"},
		"write":       {taggedSegment(opWrite, 0x11223402, 0x2000000020, true), "c140 11223402 0000002000000020"},
		"write part":  {taggedSegment(opWrite, 1, 17870, false), "8140 00000001 00000000000045ce"},
		"response":    {last(taggedSegment(opReadResponse, 7, 8, false), true), "c142 00000007 0000000000000008"},
		"send inval":  {segment{ddp: 0x41, rdmap: 0x44, stag: 0xdeadbe01, msn: 1}, "4144 deadbe01 00000000 00000001 00000000"},
		"wrong bits":  {segment{ddp: 0x7E, rdmap: 0xFC, stag: 1, qn: 2, msn: 3, mo: 4}, "7efc 00000001 00000002 00000003 00000004"},
		"wrong bits2": {segment{ddp: 0xBF, rdmap: 0x3F, stag: 1, to: 1 << 63}, "bf3f 00000001 8000000000000000"},
	} {
		want := unhex(t, c.wire)
		if got := c.s.appendTo(nil); !bytes.Equal(got, want) {
			t.Errorf("%s: %x, want %x", name, got, want)
		}
		if got, err := decodeSegment(want); err != nil || got != c.s {
			t.Errorf("%s: decoded %+v %v", name, got, err)
		}
		if len(want) != c.s.size() {
			t.Errorf("%s: size %d", name, c.s.size())
		}
		for i := range want {
			if _, err := decodeSegment(want[:i]); !errors.Is(err, errSegmentShort) {
				t.Errorf("%s: prefix %d: %v", name, i, err)
			}
		}
	}
}

// Source: [RFC 5040 §4.4], [RFC 7306 §5.2]
func TestRDMAPHeaders(t *testing.T) {
	read := readRequest{0x33445501, 0x5000, 16, 0xdeadbe01, 0x557e1c6fb450}
	readWire := unhex(t, "33445501 0000000000005000 00000010 deadbe01 0000557e1c6fb450")
	if got := read.appendTo(nil); !bytes.Equal(got, readWire) {
		t.Errorf("%x", got)
	}
	if got, err := decodeReadRequest(readWire); err != nil || got != read {
		t.Error(got, err)
	}
	atomic := atomicRequest{2, 5, 6, 8, 1, 2, 3, 4}
	atomicWire := unhex(t, "00000002 00000005 00000006 0000000000000008"+
		"0000000000000001 0000000000000002 0000000000000003 0000000000000004")
	if got := atomic.appendTo(nil); !bytes.Equal(got, atomicWire) || len(got) != atomicRequestSize {
		t.Errorf("%x", got)
	}
	if got, err := decodeAtomicRequest(atomicWire); err != nil || got != atomic {
		t.Error(got, err)
	}
	response := atomicResponse{5, 0x0102030405060708}
	responseWire := unhex(t, "00000005 0102030405060708")
	if got := response.appendTo(nil); !bytes.Equal(got, responseWire) {
		t.Errorf("%x", got)
	}
	if got, err := decodeAtomicResponse(responseWire); err != nil || got != response {
		t.Error(got, err)
	}
	for i := range atomicRequestSize + 2 {
		b := make([]byte, i)
		_, e1 := decodeReadRequest(b)
		_, e2 := decodeAtomicRequest(b)
		_, e3 := decodeAtomicResponse(b)
		if (e1 == nil) != (i == readRequestSize) || (e2 == nil) != (i == atomicRequestSize) || (e3 == nil) != (i == atomicResponseSize) {
			t.Errorf("length %d: %v %v %v", i, e1, e2, e3)
		}
	}
}

// Source: [RFC 5044 §7.1.1], [RFC 6581 §9.1]
func TestStartupGolden(t *testing.T) {
	req, rep := hex.EncodeToString([]byte(requestKey)), hex.EncodeToString([]byte(replyKey))
	for name, c := range map[string]struct {
		s    startup
		wire string
	}{
		"plain":    {startup{revision: 1, private: []byte{}}, req + "00010000"},
		"crc":      {startup{revision: 1, crc: true, private: []byte("ab")}, req + "40010002 6162"},
		"markers":  {startup{revision: 0, markers: true, private: []byte{}}, req + "80000000"},
		"reject":   {startup{reply: true, reject: true, revision: 1, private: []byte{1}}, rep + "20010001 01"},
		"enhanced": {startup{revision: 2, private: []byte{}, enhanced: &enhancedData{inbound: 1, outbound: 1}}, req + "10020004 00010001"},
		"all": {
			startup{reply: true, crc: true, revision: 2, private: []byte{9}, enhanced: &enhancedData{true, true, true, true, 0x3FFF, 0x3FFF}},
			rep + "50020005 ffffffff 09",
		},
		"rtr": {startup{revision: 2, private: []byte{}, enhanced: &enhancedData{peerToPeer: true, rtrWrite: true, outbound: 2}}, req + "10020004 80008002"},
	} {
		want := unhex(t, c.wire)
		if got := c.s.appendTo(nil); !bytes.Equal(got, want) {
			t.Errorf("%s: %x, want %x", name, got, want)
		}
		got, err := decodeStartup(want, c.s.reply)
		if err != nil || !bytes.Equal(got.appendTo(nil), want) {
			t.Errorf("%s: %+v %v", name, got, err)
		}
		for i := range want {
			if _, err := decodeStartup(want[:i], c.s.reply); err == nil {
				t.Errorf("%s: prefix %d accepted", name, i)
			}
		}
		if _, err := decodeStartup(append(want, 0), c.s.reply); !errors.Is(err, errStartupLength) {
			t.Errorf("%s: a byte more: %v", name, err)
		}
	}
}

// Source: [RFC 5044 §7.1.2 rules 5 to 7]
func TestStartupRefused(t *testing.T) {
	good := (&startup{revision: 1}).appendTo(nil)
	change := func(at int, v ...byte) []byte {
		b := bytes.Clone(good)
		copy(b[at:], v)
		return b
	}
	for name, c := range map[string]struct {
		wire  []byte
		reply bool
		err   error
	}{
		"key":             {change(0, 'm'), false, errStartupKey},
		"last of key":     {change(15, 'E'), false, errStartupKey},
		"reply key":       {(&startup{reply: true, revision: 1}).appendTo(nil), false, errStartupKey},
		"clash":           {good, true, errStartupClash},
		"revision":        {change(17, 3), false, errStartupRevision},
		"long":            {change(18, 2, 1), false, errStartupLength},
		"enhanced absent": {change(16, 0x10, 2, 0, 0), false, errStartupLength},
	} {
		if _, _, err := decodeStartupHeader(c.wire, c.reply); !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		}
	}
}

// Source: [RFC 5040 §4.8]
func TestTerminateGolden(t *testing.T) {
	header := unhex(t, "c140 6847bc00 000055b2ed18d490")
	term := terminateFor(faultBounds, header, 30)
	want := append(unhex(t, "1101c000 001e"), header...)
	if got := term.appendTo(nil); !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	crc := terminateFor(faultCRC, header, 30)
	if got := crc.appendTo(nil); !bytes.Equal(got, unhex(t, "20020000")) {
		t.Errorf("%x", got)
	}
	for _, c := range []struct {
		wire  string
		fault fault
	}{
		{"1101c000 001e" + hex.EncodeToString(header), faultBounds},
		{"11010300 0010" + hex.EncodeToString(header), faultBounds}, // a Linux peer's order
		{"21030300 0010", faultMSN},
		{"21060000", faultUntaggedVers},
		{"02020000", faultCRC},
		{"20020000", faultCRC},
		{"12054000 0000", faultTooLong},
		{"FFFF0000", fault{15, 15, 0xFF}},
	} {
		got, err := decodeTerminate(unhex(t, c.wire))
		if err != nil || got.fault != c.fault {
			t.Errorf("%s: %v %v, want %v", c.wire, got.fault, err, c.fault)
		}
	}
	for i := range 6 {
		if _, err := decodeTerminate(want[:i]); !errors.Is(err, errTerminate) {
			t.Errorf("prefix %d: %v", i, err)
		}
	}
}

// Source: [RFC 5044 §4], [RFC 5041 §4]
func TestCodecRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := segment{
			ddp: rapid.Byte().Draw(t, "ddp"), rdmap: rapid.Byte().Draw(t, "rdmap"), stag: rapid.Uint32().Draw(t, "stag"),
		}
		if s.tagged() {
			s.to = rapid.Uint64().Draw(t, "to")
		} else {
			s.qn, s.msn, s.mo = rapid.Uint32().Draw(t, "qn"), rapid.Uint32().Draw(t, "msn"), rapid.Uint32().Draw(t, "mo")
		}
		payload := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "payload")
		crc := rapid.Bool().Draw(t, "crc")
		wire := appendFPDU(nil, append(s.appendTo(nil), payload...), crc)
		if len(wire)%4 != 0 || len(wire) != fpduSize(s.size()+len(payload)) {
			t.Fatalf("length %d", len(wire))
		}
		ulpdu, rest, err := decodeFPDU(append(wire, 1, 2, 3), crc)
		if err != nil || len(rest) != 3 {
			t.Fatal(rest, err)
		}
		got, err := decodeSegment(ulpdu)
		if err != nil || got != s || !bytes.Equal(ulpdu[s.size():], payload) {
			t.Fatal(got, err)
		}
	})
}
