package smbwire

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lwio/internal/ntstatus"
)

// Source: [MS-SMB2 2.1]
func TestFrameHeaderHasTheLength(t *testing.T) {
	var b [FrameHeaderSize]byte
	PutFrameHeader(b[:], 0x123456)
	if b != [4]byte{0, 0x12, 0x34, 0x56} {
		t.Errorf("%x", b)
	}
	if n, err := DecodeFrameHeader(b[:]); n != 0x123456 || err != nil {
		t.Error(n, err)
	}
	for n := range b {
		if _, err := DecodeFrameHeader(b[:n]); !errors.Is(err, ErrShort) {
			t.Error(n, err)
		}
	}
	if _, err := DecodeFrameHeader([]byte{0x85, 0, 0, 0}); !errors.Is(err, ErrValue) {
		t.Error(err)
	}
}

// Source: [MS-SMB2 2.2.1], [MS-SMB2 2.2.41], [MS-SMB2 2.2.42]
func TestOtherProtocolsHaveErrorsOfTheirOwn(t *testing.T) {
	for first, want := range map[byte]error{0xFE: nil, 0xFF: ErrSMB1, 0xFD: ErrEncrypted, 0xFC: ErrCompressed, 0x00: ErrProtocol} {
		msg := append([]byte{first, 'S', 'M', 'B', 64, 0}, make([]byte, 58)...)
		if _, err := DecodeHeader(msg); !errors.Is(err, want) {
			t.Errorf("%#x: %v", first, err)
		}
		if IsEncrypted(msg) != (first == 0xFD) || IsEncrypted(msg[:3]) {
			t.Errorf("%#x: encrypted: %t", first, IsEncrypted(msg))
		}
	}
	if _, err := DecodeHeader(append([]byte{0xFE, 'S', 'M', 'B', 63, 0}, make([]byte, 58)...)); !errors.Is(err, ErrStructureSize) {
		t.Error(err)
	}
}

// A transform header of another protocol, or with other flags than "encrypted", is refused.
//
// Source: [MS-SMB2 2.2.41]
func TestTransformHeaderRefusesOtherTransforms(t *testing.T) {
	good := (&TransformHeader{}).AppendTo(nil)
	for at, want := range map[int]error{0: ErrProtocol, 3: ErrProtocol, 42: ErrValue, 43: ErrValue} {
		b := bytes.Clone(good)
		b[at] ^= 2
		if _, err := DecodeTransformHeader(b); !errors.Is(err, want) {
			t.Errorf("byte %d changed: %v", at, err)
		}
	}
}

// Source: [MS-SMB2 3.2.4.1.4], [MS-SMB2 3.3.5.2.7]
func TestCompoundElementsAreSplit(t *testing.T) {
	close := CloseRequest{FileID: RelatedFileID}
	open := CreateRequest{Name: text("abc")}
	b := []byte{9, 9, 9, 9} // bytes before a message
	start := len(b)
	b = (&Header{Command: CommandCreate, MessageID: 1}).AppendTo(b)
	b = EndElement(open.AppendTo(b), start)
	second := len(b)
	b = (&Header{Command: CommandClose, Flags: FlagRelated, MessageID: 2}).AppendTo(b)
	b = close.AppendTo(b)

	h, first, more, err := Next(b[start:])
	if err != nil || h.Command != CommandCreate || len(first) != second-start || len(first)%8 != 0 {
		t.Fatal(h, len(first), err)
	}
	h, last, more, err := Next(more)
	if err != nil || h.Command != CommandClose || more != nil || !bytes.Equal(last, b[second:]) {
		t.Fatal(h, more, err)
	}
	for name, next := range map[string]int{
		"unaligned": second - start + 4, "into the header": 56, "at the end": len(b) - start, "no room": len(b) - start - 16, "far": math.MaxUint32 &^ 7,
	} {
		bad := bytes.Clone(b[start:])
		le.PutUint32(bad[offNextCommand:], uint32(next))
		if _, _, _, err := Next(bad); !errors.Is(err, ErrOffset) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Offsets into the fixed part or out of the message are refused.
//
// Source: [MS-SMB2 3.3.5.13], [MS-SMB2 3.3.5.15]
func TestOffsetsOutsideTheMessageAreRefused(t *testing.T) {
	w := WriteRequest{Data: []byte("data")}
	for _, offset := range []uint16{0, 63, HeaderSize, HeaderSize + WriteRequestFixed - 1, HeaderSize + WriteRequestFixed + 1, math.MaxUint16} {
		b := w.AppendTo(nil)
		le.PutUint16(b[2:], offset)
		if _, err := DecodeWriteRequest(b); !errors.Is(err, ErrOffset) || !errors.Is(err, ntstatus.InvalidParameter) {
			t.Errorf("%d: %v", offset, err)
		}
	}
	b := w.AppendTo(nil)
	le.PutUint32(b[4:], math.MaxUint32)
	if _, err := DecodeWriteRequest(b); !errors.Is(err, ErrOffset) {
		t.Error(err)
	}
}

// Source: [MS-SMB2 2.2], [MS-FSCC 2.1.5]
func TestUTF16RoundTripAndRefusals(t *testing.T) {
	for s, want := range map[string]string{
		"":        "",
		"aä€":     "6100 e400 ac20",
		"😀":       "3dd8 00de",
		"\uFFFD":  "fdff",
		`a\b:c*?`: "6100 5c00 6200 3a00 6300 2a00 3f00",
	} {
		b, err := UTF16(s)
		if err != nil || !bytes.Equal(b, unhex(t, want)) {
			t.Errorf("%q: %x %v", s, b, err)
		}
		if back, err := DecodeUTF16(b); back != s || err != nil {
			t.Errorf("%q: %q %v", s, back, err)
		}
	}
	before := []byte("before")
	for _, s := range []string{"a\x00b", "\x80", "a\xed\xa0\x80", string(bytes.Repeat([]byte("a"), maxText/2+1))} {
		if b, err := AppendUTF16(before, s); !errors.Is(err, ErrName) || !errors.Is(err, fs.ErrInvalid) || string(b) != "before" {
			t.Errorf("%.10q: %v", s, err)
		}
	}
	for _, raw := range []string{"61", "0000", "6100 0000", "3dd8", "3dd8 6100", "00de", "00de 3dd8"} {
		if s, err := DecodeUTF16(unhex(t, raw)); !errors.Is(err, ErrName) || !errors.Is(err, ntstatus.ObjectNameInvalid) {
			t.Errorf("%s: %q %v", raw, s, err)
		}
	}
}

// Source: [MS-DTYP 2.3.3]
func TestFiletimeConversionClampsAndRounds(t *testing.T) {
	for _, row := range []struct {
		f Filetime
		t time.Time
	}{
		{0, time.Time{}},
		{1, time.Date(1601, 1, 1, 0, 0, 0, 100, time.UTC)},
		{116444736000000000, time.Unix(0, 0)},
		{132223104000000000, time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)},
		{116444735999999999, time.Unix(-1, 999999900)},
	} {
		if got := FiletimeOf(row.t); got != row.f {
			t.Errorf("%v: %d, want %d", row.t, got, row.f)
		}
		if got := row.f.Time(); !got.Equal(row.t) {
			t.Errorf("%d: %v, want %v", row.f, got, row.t)
		}
	}
	if f := FiletimeOf(time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC)); f != 0 {
		t.Error(f)
	}
	if f := FiletimeOf(time.Unix(1<<60, 0)); f != maxFiletime {
		t.Error(f)
	}
	if !FiletimeFreeze.Time().IsZero() || !FiletimeThaw.Time().IsZero() {
		t.Error("not a time, and yet one")
	}
	rapid.Check(t, func(t *rapid.T) {
		f := Filetime(rapid.Uint64Range(0, maxFiletime-ticksPerSecond).Draw(t, "filetime"))
		if got := FiletimeOf(f.Time()); got != f {
			t.Fatalf("%d became %d", f, got)
		}
	})
}

// Source: [OP-5c], [MS-CIFS 2.2.4.52.2]
func TestSMB1Refusal(t *testing.T) {
	alone := SMB1Negotiate{IDs: [10]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}
	n, err := DecodeSMB1Negotiate(alone.AppendTo(nil))
	if err != nil || n.SMB2002 || n.SMB2Wildcard {
		t.Fatal(n, err)
	}
	want := unhex(t, "ff534d42 72 00000000 80 0000 0102 0000000000000000 0000 0304 0506 0708 090a 01 ffff 0000")
	if got := n.AppendRefusal(nil); !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	for name, change := range map[string]func(b []byte){
		"another command": func(b []byte) { b[4] = 0x73 },
		"words":           func(b []byte) { b[32] = 1 },
		"not SMB":         func(b []byte) { b[0] = 0 },
		"no buffer mark":  func(b []byte) { b[35] = 1 },
		"no end mark":     func(b []byte) { b[len(b)-1] = 1 },
	} {
		b := alone.AppendTo(nil)
		change(b)
		if _, err := DecodeSMB1Negotiate(b); !errors.Is(err, ErrProtocol) && !errors.Is(err, ErrValue) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The codec of messages with payload allocates nothing in either direction.
//
// Source: [MS-SMB2 2.2.19], [MS-SMB2 2.2.21]
func TestReadAndWriteCodecDoesNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 512)
	for name, f := range map[string]func(){
		"header":   func() { h := Header{MessageID: 1}; _, _ = DecodeHeader(h.AppendTo(buf)) },
		"READ":     func() { r := ReadRequest{Length: 1}; _, _ = DecodeReadRequest(r.AppendTo(buf)) },
		"READ ok":  func() { r := ReadResponse{}; _, _ = DecodeReadResponse(r.AppendFixed(buf, 0)) },
		"WRITE":    func() { r := WriteRequest{}; _, _ = DecodeWriteRequest(r.AppendFixed(buf, 0)) },
		"WRITE ok": func() { r := WriteResponse{}; _, _ = DecodeWriteResponse(r.AppendTo(buf)) },
		"CLOSE":    func() { r := CloseRequest{}; _, _ = DecodeCloseRequest(r.AppendTo(buf)) },
		"entry": func() {
			e := DirEntry{}
			b, _ := AppendDirEntry(buf, 0, -1, ClassIDBothDirectory, &e)
			_, _, _ = NextDirEntry(ClassIDBothDirectory, b)
		},
		"QUERY":     func() { r := QueryInfoRequest{}; _, _ = DecodeQueryInfoRequest(r.AppendTo(buf)) },
		"IOCTL ok":  func() { r := IoctlResponse{}; _, _ = DecodeIoctlResponse(r.AppendTo(buf)) },
		"CREATE ok": func() { r := CreateResponse{}; _, _ = DecodeCreateResponse(r.AppendTo(buf)) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
