package iwarp

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// captured is a frame between a Linux peer and another.
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

// TestCapturedFrames parses every frame and makes it again.
//
// Source: [RFC 5044 §4], [RFC 5044 §7.1], [RFC 5040 §4]
func TestCapturedFrames(t *testing.T) {
	kinds := map[string]int{}
	for _, f := range capturedFrames(t) {
		var again []byte
		kind := "startup"
		switch {
		case strings.Contains(f.what, " MPA Re"):
			s, err := decodeStartup(f.wire, strings.Contains(f.what, " MPA Rep"))
			if strings.Contains(f.what, "rev=3") {
				if err == nil {
					t.Errorf("%s: revision 3 accepted", f.where)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", f.where, err)
				continue
			}
			again = s.appendTo(nil)
		default:
			again, kind = reEmit(t, f)
		}
		kinds[kind]++
		if again != nil && !bytes.Equal(again, f.wire) {
			t.Errorf("%s: %s\nmade again as %x\n           from %x", f.where, f.what, again, f.wire)
		}
	}
	for kind, least := range map[string]int{
		"startup": 50, "send": 150, "write": 100, "read request": 15, "read response": 100, "terminate": 17, "send inval": 5,
	} {
		if kinds[kind] < least {
			t.Errorf("only %d frames of kind %s: %v", kinds[kind], kind, kinds)
		}
	}
}

var layerField = regexp.MustCompile(`as a little-endian bit field: layer (\d) etype (\d) code 0x(\w\w)`)

// reEmit parses the FPDU down to its last field and makes it again. For a
// Terminate, which we write in another bit order, it only compares the meaning.
func reEmit(t *testing.T, f captured) (again []byte, kind string) {
	if strings.Contains(f.what, "CRC BAD") {
		if _, _, err := decodeFPDU(f.wire, true); !errors.Is(err, errCRC) {
			t.Errorf("%s: wrong CRC accepted: %v", f.where, err)
		}
		return nil, "bad"
	}
	crc := strings.Contains(f.what, "crc ok")
	ulpdu, rest, err := decodeFPDU(f.wire, crc)
	if err != nil || len(rest) != 0 {
		t.Errorf("%s: %v, %d bytes too many", f.where, err, len(rest))
		return nil, ""
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
		return nil, ""
	}
	u, payload := s.appendTo(nil), ulpdu[s.size():]
	switch s.opcode() {
	case opReadRequest:
		kind = "read request"
		if r, err := decodeReadRequest(payload); err == nil {
			payload = r.appendTo(nil)
		}
	case opTerminate:
		compareTerminate(t, f, payload)
		return nil, "terminate"
	case opWrite:
		kind = "write"
	case opReadResponse:
		kind = "read response"
	case opSend:
		kind = "send"
	case opSendInvalidate:
		kind = "send inval"
	default:
		kind = "other"
	}
	return appendFPDU(nil, append(u, payload...), crc), kind
}

func compareTerminate(t *testing.T, f captured, payload []byte) {
	term, err := decodeTerminate(payload)
	m := layerField.FindStringSubmatch(f.what)
	if err != nil || m == nil {
		t.Errorf("%s: %v", f.where, err)
		return
	}
	code, _ := strconv.ParseUint(m[3], 16, 8)
	want := fault{m[1][0] - '0', m[2][0] - '0', uint8(code)}
	rfc := fault{payload[0] >> 4, payload[0] & 15, payload[1]}
	_, ambiguous := faultNames[rfc]
	if term.fault != want && (!ambiguous || payload[2] != 0) {
		t.Errorf("%s: %v, want %v", f.where, term.fault, want)
	}
	if payload[2]&2 != 0 && len(term.header) < taggedSize {
		t.Errorf("%s: header missing", f.where)
	}
}
