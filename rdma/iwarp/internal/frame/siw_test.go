package frame

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// captured is a frame that a Linux peer and another peer exchanged.
type captured struct {
	where string // file and line
	what  string
	wire  []byte
}

// capturedFrames reads testdata/siw.
func capturedFrames(t testing.TB) []captured {
	t.Helper()
	files, err := filepath.Glob("testdata/siw/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no captured frames", err)
	}
	var frames []captured
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		what := ""
		for n := 1; lines.Scan(); n++ {
			if !strings.HasPrefix(lines.Text(), "    ") {
				what = lines.Text()
				continue
			}
			b, err := hex.DecodeString(strings.TrimSpace(lines.Text()))
			if err != nil {
				t.Fatal(name, n, err)
			}
			frames = append(frames, captured{filepath.Base(name) + ":" + strconv.Itoa(n), what, b})
		}
	}
	return frames
}

// capturedKinds has the number of captured frames of each kind. All bytes of the captures
// belong to frames, and all frames have a kind.
var capturedKinds = map[string]int{
	"startup": 80, "startup of revision 3": 1,
	"send": 168, "send inval": 7, "write": 135, "read request": 21, "read response": 155, "terminate": 17,
	"opcode 12": 1, "other version": 3, "short": 1, "wrong CRC": 1,
}

// Every frame is decoded and encoded again.
//
// Source: [RFC 5044 §4], [RFC 5044 §7.1], [RFC 5040 §4]
func TestCapturedFramesReencode(t *testing.T) {
	kinds := map[string]int{}
	for _, f := range capturedFrames(t) {
		again, kind := remake(t, f)
		kinds[kind]++
		if again != nil && !bytes.Equal(again, f.wire) {
			t.Errorf("%s: %s\nencodes again as %x\n            instead of %x", f.where, f.what, again, f.wire)
		}
	}
	if !maps.Equal(kinds, capturedKinds) {
		t.Errorf("frames of each kind: %v, want %v", kinds, capturedKinds)
	}
}

// remake decodes a frame and encodes it again. It returns nil for a frame that must be
// refused, and was refused.
func remake(t *testing.T, f captured) (again []byte, kind string) {
	if !strings.Contains(f.what, " MPA Re") {
		return remakeFPDU(t, f)
	}
	s, err := DecodeStartup(f.wire, strings.Contains(f.what, " MPA Rep"))
	if strings.Contains(f.what, "rev=3") {
		if !errors.Is(err, ErrStartupRevision) {
			t.Errorf("%s: revision 3: %v", f.where, err)
		}
		return nil, "startup of revision 3"
	}
	if err != nil {
		t.Errorf("%s: %v", f.where, err)
	}
	return s.AppendTo(nil), "startup"
}

var layerField = regexp.MustCompile(`as a little-endian bit field: layer (\d) etype (\d) code 0x(\w\w)`)

// remakeFPDU decodes an FPDU completely and encodes it again.
func remakeFPDU(t *testing.T, f captured) (again []byte, kind string) {
	crc := strings.Contains(f.what, "crc ok")
	if strings.Contains(f.what, "CRC BAD") {
		if _, _, err := decodeFPDU(f.wire, true); !errors.Is(err, errCRC) {
			t.Errorf("%s: wrong CRC accepted: %v", f.where, err)
		}
		return nil, "wrong CRC"
	}
	ulpdu, rest, err := decodeFPDU(f.wire, crc)
	if err != nil || len(rest) != 0 {
		t.Errorf("%s: %v, %d bytes too many", f.where, err, len(rest))
		return nil, "unreadable"
	}
	s, err := decodeSegment(ulpdu)
	if strings.Contains(f.what, "short ULPDU") {
		if err == nil {
			t.Errorf("%s: short segment accepted", f.where)
		}
		return nil, "short"
	}
	if err != nil {
		t.Errorf("%s: %v", f.where, err)
		return nil, "unreadable"
	}
	payload, kind := remakeMessage(t, f, &s, ulpdu[s.Size():])
	return AppendFPDU(nil, append(s.AppendTo(nil), payload...), crc), kind
}

// remakeMessage encodes the content of a segment again, and returns the kind of the
// segment: its opcode, or its error.
func remakeMessage(t *testing.T, f captured, s *Segment, payload []byte) (again []byte, kind string) {
	if !s.DDPVersionOK() || !s.RDMAPVersionOK() {
		return payload, "other version"
	}
	switch op := s.Opcode(); op {
	case OpReadRequest:
		r, err := DecodeReadRequest(payload)
		if err != nil {
			t.Errorf("%s: %v", f.where, err)
		}
		return r.AppendTo(nil), "read request"
	case OpTerminate:
		return remakeTerminate(t, f, payload), "terminate"
	case OpWrite:
		return payload, "write"
	case OpReadResponse:
		return payload, "read response"
	case OpSend:
		return payload, "send"
	case OpSendInvalidate:
		return payload, "send inval"
	default:
		return payload, fmt.Sprintf("opcode %d", op)
	}
}

// remakeTerminate encodes a Terminate again, in the bit order of its sender. It compares
// the decoded fault with the description of the capture.
func remakeTerminate(t *testing.T, f captured, payload []byte) []byte {
	term, err := DecodeTerminate(payload)
	m := layerField.FindStringSubmatch(f.what)
	if err != nil || m == nil {
		t.Errorf("%s: %v", f.where, err)
		return nil
	}
	code, _ := strconv.ParseUint(m[3], 16, 8)
	want := Fault{m[1][0] - '0', m[2][0] - '0', uint8(code)}
	rfc := Fault{payload[0] >> 4, payload[0] & 15, payload[1]}
	_, ambiguous := faultNames[rfc]
	if term.Fault != want && (!ambiguous || payload[2] != 0) {
		t.Errorf("%s: %v, want %v", f.where, term.Fault, want)
	}
	again := term.AppendTo(nil)
	again[0] = want.Kind<<4 | want.Layer
	again[2] = term.Control>>7 | term.Control>>5&2 | term.Control>>3&4
	return again
}
