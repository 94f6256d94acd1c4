package nbdwire

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Source: [NBD §Request message], [NBD §Simple reply message], [NBD §Structured reply types]
func TestTransmissionMatchesGoldenBytes(t *testing.T) {
	const cookie = 0x1112131415161718
	for _, c := range []struct {
		name string
		got  []byte
		want []byte
	}{
		{"request", Request{FlagFUA | FlagNoHole, CmdWriteZeroes, cookie, 0x2122232425262728, 0x31323334}.AppendTo(nil),
			golden(t, "25609513", "0003", "0006", "1112131415161718", "2122232425262728", "31323334")},
		{"simple reply", AppendSimpleReply(nil, cookie, 0),
			golden(t, "67446698", "00000000", "1112131415161718")},
		{"simple error", AppendSimpleReply(nil, cookie, ENOSPC),
			golden(t, "67446698", "0000001c", "1112131415161718")},
		{"done", AppendDone(nil, cookie),
			golden(t, "668e33ef", "0001", "0000", "1112131415161718", "00000000")},
		{"data", AppendDataChunk(nil, cookie, 0x2122232425262728, 512),
			golden(t, "668e33ef", "0001", "0001", "1112131415161718", "00000208", "2122232425262728")},
		{"error", AppendError(nil, cookie, EINVAL, "no"),
			golden(t, "668e33ef", "0001", "8001", "1112131415161718", "00000008", "00000016", "0002", text("no"))},
		{"error without text", AppendError(nil, cookie, ESHUTDOWN, ""),
			golden(t, "668e33ef", "0001", "8001", "1112131415161718", "00000006", "0000006c", "0000")},
	} {
		t.Run(c.name, func(t *testing.T) { same(t, c.got, c.want) })
	}
	if n := len(AppendSimpleReply(nil, 1, 0)); n != SimpleReplySize {
		t.Errorf("a simple reply has %d bytes", n)
	}
	if n := len(AppendDataChunk(nil, 1, 0, 1)); n != DataChunkSize {
		t.Errorf("a chunk of data has a header of %d bytes", n)
	}
}

// The text of an error is cut where the protocol ends strings.
//
// Source: [NBD §Conventions]
func TestLongErrorTextIsCut(t *testing.T) {
	b := AppendError(nil, 1, EIO, strings.Repeat("a", 70_000))
	if len(b) != chunkSize+6+MaxName {
		t.Errorf("%d bytes", len(b))
	}
}

// Source: [NBD §Request message]
func TestDecodedRequest(t *testing.T) {
	r, err := DecodeRequest(golden(t, "25609513", "0010", "0001", "1112131415161718", "2122232425262728", "31323334"))
	want := Request{FlagFastZero, CmdWrite, 0x1112131415161718, 0x2122232425262728, 0x31323334}
	if diff := cmp.Diff(want, r); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// A decoded message encodes to the same bytes.
func FuzzRequest(f *testing.F) {
	f.Add(Request{FlagDF, CmdRead, 1, 2, 3}.AppendTo(nil))
	f.Add(Request{0, CmdFlush, 0, 0, 0}.AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := DecodeRequest(b); err == nil {
			same(t, r.AppendTo(nil), b)
		}
	})
}

// Headers of the usual replies cost no memory.
func TestRepliesAllocateNothing(t *testing.T) {
	b := make([]byte, 0, 64)
	request := Request{Command: CmdRead, Length: 4096}.AppendTo(nil)
	if n := testing.AllocsPerRun(100, func() {
		r, err := DecodeRequest(request)
		if err != nil {
			t.Fatal(err)
		}
		b = AppendDataChunk(b[:0], r.Cookie, r.Offset, r.Length)
		b = AppendSimpleReply(b[:0], r.Cookie, 0)
		b = AppendDone(b[:0], r.Cookie)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
