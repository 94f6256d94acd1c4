package frame

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

// Source: [RFC 5044 §4.4]
func TestCRCVectors(t *testing.T) {
	zeros := strings.Repeat("00", 24)
	for _, c := range []struct{ input, CRC string }{
		{"00000000 002a4143 00000000 00000000 00000001 00000000" + zeros, "52239983"},
		{"002a4143 00000000 00000000 00000001 00000000" + zeros, "b7243ec3"},
		{"002a4143 00000000 00000000 00000002 00000000 00000014" + zeros, "84925898"},
		{hex.EncodeToString([]byte("123456789")), "839206e3"},
	} {
		got := appendCRC(nil, crc32.Checksum(unhex(t, c.input), castagnoli))
		if !bytes.Equal(got, unhex(t, c.CRC)) {
			t.Errorf("%s: %x, want %s", c.input, got, c.CRC)
		}
	}
}

// Source: [RFC 5044 §4.1], [RFC 5044 §4.4]
func TestFPDUEncodingAndChecks(t *testing.T) {
	for n, pad := range []int{2, 1, 0, 3, 2, 1, 0} {
		if PadOf(n) != pad {
			t.Errorf("padOf(%d) = %d, want %d", n, PadOf(n), pad)
		}
	}
	if FPDUSize(42) != 48 || FPDUSize(43) != 52 || ULPDUForMSS(1460) != 1454 || ULPDUForMSS(1461) != 1454 {
		t.Error("wrong sizes")
	}
	// An untagged segment without payload, with the CRC of the standard's example.
	u := unhex(t, "4143 00000000 00000000 00000001 00000000"+strings.Repeat("00", 24))
	want := append(append([]byte{0, 42}, u...), unhex(t, "b7243ec3")...)
	got := AppendFPDU(nil, u, true)
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
	if off := AppendFPDU(nil, u[:3], false); !bytes.Equal(off, []byte{0, 3, 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0}) {
		t.Errorf("without CRC: %x", off)
	}
}

// Source: [RFC 5041 §4.2], [RFC 5041 §4.3], [RFC 5040 §4.1]
func TestSegmentGolden(t *testing.T) {
	last := func(s Segment, l bool) Segment {
		if l {
			s.DDP |= DDPLast
		}
		return s
	}
	for name, c := range map[string]struct {
		s    Segment
		wire string
	}{
		"send":        {UntaggedSegment(OpSend, 0, 1, 0, true), "4143 00000000 00000000 00000001 00000000"},
		"send part":   {UntaggedSegment(OpSend, 0, 0xFFFFFFFF, 1482, false), "0143 00000000 00000000 ffffffff 000005ca"},
		"send event":  {UntaggedSegment(OpSendEvent, 0, 2, 0, true), "4145 00000000 00000000 00000002 00000000"},
		"terminate":   {UntaggedSegment(OpTerminate, 2, 1, 0, true), "4147 00000000 00000002 00000001 00000000"},
		"read":        {UntaggedSegment(OpReadRequest, 1, 1, 0, true), "4141 00000000 00000001 00000001 00000000"},
		"write":       {TaggedSegment(OpWrite, 0x11223402, 0x2000000020, true), "c140 11223402 0000002000000020"},
		"write part":  {TaggedSegment(OpWrite, 1, 17870, false), "8140 00000001 00000000000045ce"},
		"response":    {last(TaggedSegment(OpReadResponse, 7, 8, false), true), "c142 00000007 0000000000000008"},
		"send inval":  {Segment{DDP: 0x41, RDMAP: 0x44, STag: 0xdeadbe01, MSN: 1}, "4144 deadbe01 00000000 00000001 00000000"},
		"wrong bits":  {Segment{DDP: 0x7E, RDMAP: 0xFC, STag: 1, QN: 2, MSN: 3, MO: 4}, "7efc 00000001 00000002 00000003 00000004"},
		"wrong bits2": {Segment{DDP: 0xBF, RDMAP: 0x3F, STag: 1, TO: 1 << 63}, "bf3f 00000001 8000000000000000"},
	} {
		want := unhex(t, c.wire)
		if got := c.s.AppendTo(nil); !bytes.Equal(got, want) {
			t.Errorf("%s: %x, want %x", name, got, want)
		}
		if got, err := decodeSegment(want); err != nil || got != c.s {
			t.Errorf("%s: decoded %+v %v", name, got, err)
		}
		if len(want) != c.s.Size() {
			t.Errorf("%s: size %d", name, c.s.Size())
		}
		for i := range want {
			if _, err := decodeSegment(want[:i]); !errors.Is(err, errSegmentShort) {
				t.Errorf("%s: prefix %d: %v", name, i, err)
			}
		}
	}
}

// Source: [RFC 5040 §4.4], [RFC 7306 §5.2]
func TestRDMAPHeaderGolden(t *testing.T) {
	read := ReadRequest{0x33445501, 0x5000, 16, 0xdeadbe01, 0x557e1c6fb450}
	readWire := unhex(t, "33445501 0000000000005000 00000010 deadbe01 0000557e1c6fb450")
	if got := read.AppendTo(nil); !bytes.Equal(got, readWire) {
		t.Errorf("%x", got)
	}
	if got, err := DecodeReadRequest(readWire); err != nil || got != read {
		t.Error(got, err)
	}
	atomic := AtomicRequest{2, 5, 6, 8, 1, 2, 3, 4}
	atomicWire := unhex(t, "00000002 00000005 00000006 0000000000000008"+
		"0000000000000001 0000000000000002 0000000000000003 0000000000000004")
	if got := atomic.AppendTo(nil); !bytes.Equal(got, atomicWire) || len(got) != AtomicRequestSize {
		t.Errorf("%x", got)
	}
	if got, err := DecodeAtomicRequest(atomicWire); err != nil || got != atomic {
		t.Error(got, err)
	}
	response := AtomicResponse{5, 0x0102030405060708}
	responseWire := unhex(t, "00000005 0102030405060708")
	if got := response.AppendTo(nil); !bytes.Equal(got, responseWire) {
		t.Errorf("%x", got)
	}
	if got, err := DecodeAtomicResponse(responseWire); err != nil || got != response {
		t.Error(got, err)
	}
	for i := range AtomicRequestSize + 2 {
		b := make([]byte, i)
		_, e1 := DecodeReadRequest(b)
		_, e2 := DecodeAtomicRequest(b)
		_, e3 := DecodeAtomicResponse(b)
		if (e1 == nil) != (i == ReadRequestSize) || (e2 == nil) != (i == AtomicRequestSize) || (e3 == nil) != (i == AtomicResponseSize) {
			t.Errorf("length %d: %v %v %v", i, e1, e2, e3)
		}
	}
}

// Source: [RFC 5044 §7.1.1], [RFC 6581 §9]
func TestStartupGolden(t *testing.T) {
	req, rep := hex.EncodeToString([]byte(RequestKey)), hex.EncodeToString([]byte(ReplyKey))
	for name, c := range map[string]struct {
		s    Startup
		wire string
	}{
		"plain":    {Startup{Revision: 1, Private: []byte{}}, req + "00010000"},
		"crc":      {Startup{Revision: 1, CRC: true, Private: []byte("ab")}, req + "40010002 6162"},
		"markers":  {Startup{Revision: 0, Markers: true, Private: []byte{}}, req + "80000000"},
		"reject":   {Startup{Reply: true, Reject: true, Revision: 1, Private: []byte{1}}, rep + "20010001 01"},
		"enhanced": {Startup{Revision: 2, Private: []byte{}, Enhanced: &Enhanced{Inbound: 1, Outbound: 1}}, req + "10020004 00010001"},
		"all": {
			Startup{Reply: true, CRC: true, Revision: 2, Private: []byte{9}, Enhanced: &Enhanced{true, true, true, true, 0x3FFF, 0x3FFF}},
			rep + "50020005 ffffffff 09",
		},
		"rtr": {Startup{Revision: 2, Private: []byte{}, Enhanced: &Enhanced{PeerToPeer: true, RTRWrite: true, Outbound: 2}}, req + "10020004 80008002"},
	} {
		want := unhex(t, c.wire)
		if got := c.s.AppendTo(nil); !bytes.Equal(got, want) {
			t.Errorf("%s: %x, want %x", name, got, want)
		}
		got, err := DecodeStartup(want, c.s.Reply)
		if err != nil || !bytes.Equal(got.AppendTo(nil), want) {
			t.Errorf("%s: %+v %v", name, got, err)
		}
		for i := range want {
			if _, err := DecodeStartup(want[:i], c.s.Reply); err == nil {
				t.Errorf("%s: prefix %d accepted", name, i)
			}
		}
		if _, err := DecodeStartup(append(want, 0), c.s.Reply); !errors.Is(err, ErrStartupLength) {
			t.Errorf("%s: a byte more: %v", name, err)
		}
	}
}

// Source: [RFC 5044 §7.1.2 rules 5 to 7]
func TestInvalidStartupIsRefused(t *testing.T) {
	good := (&Startup{Revision: 1}).AppendTo(nil)
	change := func(at int, v ...byte) []byte {
		b := bytes.Clone(good)
		copy(b[at:], v)
		return b
	}
	for name, c := range map[string]struct {
		wire  []byte
		Reply bool
		err   error
	}{
		"key":             {change(0, 'm'), false, ErrStartupKey},
		"last of key":     {change(15, 'E'), false, ErrStartupKey},
		"reply key":       {(&Startup{Reply: true, Revision: 1}).AppendTo(nil), false, ErrStartupKey},
		"clash":           {good, true, ErrStartupClash},
		"revision":        {change(17, 3), false, ErrStartupRevision},
		"long":            {change(18, 2, 1), false, ErrStartupLength},
		"enhanced absent": {change(16, 0x10, 2, 0, 0), false, ErrStartupLength},
	} {
		if _, err := StartupSize(c.wire, c.Reply); !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		}
	}
}

// Source: [RFC 5040 §4.8]
func TestTerminateGolden(t *testing.T) {
	header := unhex(t, "c140 6847bc00 000055b2ed18d490")
	term := TerminateFor(FaultBounds, header, 30)
	want := append(unhex(t, "1101c000 001e"), header...)
	if got := term.AppendTo(nil); !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	crc := TerminateFor(FaultCRC, header, 30)
	if got := crc.AppendTo(nil); !bytes.Equal(got, unhex(t, "20020000")) {
		t.Errorf("%x", got)
	}
	for _, c := range []struct {
		wire  string
		Fault Fault
	}{
		{"1101c000 001e" + hex.EncodeToString(header), FaultBounds},
		{"11010300 0010" + hex.EncodeToString(header), FaultBounds}, // a Linux peer's order
		{"21030300 0010", FaultMSN},
		{"21060000", FaultUntaggedVers},
		{"02020000", FaultCRC},
		{"20020000", FaultCRC},
		{"12054000 0000", FaultTooLong},
		{"FFFF0000", Fault{15, 15, 0xFF}},
	} {
		got, err := DecodeTerminate(unhex(t, c.wire))
		if err != nil || got.Fault != c.Fault {
			t.Errorf("%s: %v %v, want %v", c.wire, got.Fault, err, c.Fault)
		}
	}
	for i := range 6 {
		if _, err := DecodeTerminate(want[:i]); !errors.Is(err, errTerminate) {
			t.Errorf("prefix %d: %v", i, err)
		}
	}
}

// Source: [RFC 5044 §4], [RFC 5041 §4]
func TestCodecRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Segment{
			DDP: rapid.Byte().Draw(t, "ddp"), RDMAP: rapid.Byte().Draw(t, "rdmap"), STag: rapid.Uint32().Draw(t, "stag"),
		}
		if s.Tagged() {
			s.TO = rapid.Uint64().Draw(t, "to")
		} else {
			s.QN, s.MSN, s.MO = rapid.Uint32().Draw(t, "qn"), rapid.Uint32().Draw(t, "msn"), rapid.Uint32().Draw(t, "mo")
		}
		payload := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "payload")
		crc := rapid.Bool().Draw(t, "crc")
		wire := AppendFPDU(nil, append(s.AppendTo(nil), payload...), crc)
		if len(wire)%4 != 0 || len(wire) != FPDUSize(s.Size()+len(payload)) {
			t.Fatalf("length %d", len(wire))
		}
		ulpdu, rest, err := decodeFPDU(append(wire, 1, 2, 3), crc)
		if err != nil || len(rest) != 3 {
			t.Fatal(rest, err)
		}
		got, err := decodeSegment(ulpdu)
		if err != nil || got != s || !bytes.Equal(ulpdu[s.Size():], payload) {
			t.Fatal(got, err)
		}
	})
}
