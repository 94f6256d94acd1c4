package wire

import (
	"math"
	"testing"

	"lwio/internal/ntstatus"
	"pgregory.net/rapid"
)

// Every accepted message is within the limits of the receiver, and every other is answered with
// a failure or ends the connection.
//
// Source: [OP-27], [OP-63], [OP-106]
func checkAnything(t failer, b []byte) {
	t.Helper()
	h, err := decodeHeader(b)
	if err != nil {
		return
	}
	body := b[HeaderSize:]
	err = h.Check(len(b), withFileCalls())
	if err != nil {
		status := ntstatus.Of(err)
		if !Terminates(err) && (!status.Failed() || status == ntstatus.UnexpectedIOError) {
			t.Fatalf("%v has nothing to answer", err)
		}
		return
	}
	switch h.Opcode {
	case OpRead:
		if h.Length > depicted.MaxRdmaWindowSize || len(body) != 0 {
			t.Fatalf("%+v", h)
		}
	case OpWrite:
		if len(body) != int(h.Length) {
			t.Fatalf("%+v with %d bytes", h, len(body))
		}
	case OpVecRead:
		if h.CheckRegions(body, 1) == nil && int(h.Length) > int(h.NumPages)*int(h.PageSize) {
			t.Fatalf("%+v", h)
		}
	case OpVecWrite:
		collapsed := h.Flags&FlagCollapse != 0
		if collapsed && (h.Length > depicted.MaxRdmaWindowSize || len(body) == 0 && h.Length != 0) ||
			!collapsed && len(body) != int(h.Length) {
			t.Fatalf("%+v with %d bytes", h, len(body))
		}
	case OpLock, OpUnlock, OpSync, OpSetSize, OpStat:
		if len(body) != 0 || h.Opcode == OpSetSize && h.Offset > math.MaxInt64 || h.Opcode == OpStat && h.Length < StatInfoSize {
			t.Fatalf("%+v with %d bytes", h, len(body))
		}
	case OpLookup:
		if len(body) > MaxLookup || h.Length < StatInfoSize {
			t.Fatalf("%+v with %d bytes", h, len(body))
		}
	default:
		if !h.Interrupt() || int(h.Length) != len(b) || !h.Opcode.Known() {
			t.Fatalf("%+v with %d bytes", h, len(body))
		}
	}
	if h.Opcode.IO() && (h.Offset > math.MaxInt64 || h.Offset+uint64(h.Length) > math.MaxInt64) {
		t.Fatalf("%+v", h)
	}
	if h.Flags&0x0F != 0 || h.Flags&FlagShared != 0 && h.Opcode != OpLock {
		t.Fatalf("%+v", h)
	}
}

func TestCheckAcceptsOnlyMessagesWithinTheLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := Header{
			Length: rapid.OneOf(rapid.Uint32Range(0, 200), rapid.Uint32()).Draw(t, "length"),
			Opcode: Opcode(rapid.OneOf(rapid.Uint8Range(0, 11), rapid.Uint8Range(0x7F, 0x86)).Draw(t, "opcode")),
			Flags:  rapid.SampledFrom([]uint8{0, 0x20, 0x80, 0xA0, 0xC0, 0x81, 0x90}).Draw(t, "flags"),
			Offset: rapid.OneOf(rapid.Uint64Range(0, 1<<20), rapid.Uint64()).Draw(t, "offset"),

			NumPages: rapid.Uint16Range(0, 3).Draw(t, "pages"),
			PageSize: rapid.SampledFrom([]uint16{0, 512, 4096}).Draw(t, "page"),
		}
		body := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "body")
		checkAnything(t, append(h.AppendTo(nil), body...))
	})
}

// messages are one of each of a client's messages.
func messages() [][]byte {
	p := clientParams()
	build := func(h Header, body []byte) []byte { return append(h.AppendTo(nil), body...) }
	params := p.AppendTo(nil)
	return [][]byte{
		build(NewAuth(len(params), target), params),
		build(NewRegister(), fidParams.AppendTo(nil)),
		build(NewInterrupt(2), nil),
		build(NewCredit(-1), nil),
		build(NewClose(2), nil),
		build(NewCancel(2), nil),
		build(by(NewRead(1, 0, target), sent), nil),
		build(by(NewRead(1, 0, target), polled), nil),
		build(by(NewWrite(1, 0, 5), sent), []byte("hello")),
		build(by(NewVecRead(1, 0, 4096, 1, 4096), polled), target.AppendTo(nil)),
		build(by(NewVecWrite(1, 0, 5, 4096), sent), []byte("hello")),
		build(by(NewCollapse(1, 0, 4096, 512), polled), make([]byte, 512)),
	}
}

// Every message that a client makes passes the checks of a server, and no prefix of
// it does.
//
// Source: [LWIO claim 15], [OP-27]
func TestCheckAcceptsMessagesOfTheClient(t *testing.T) {
	for _, b := range messages() {
		check := func(b []byte) error {
			h, err := decodeHeader(b)
			if err != nil {
				return err
			}
			return h.Check(len(b), depicted)
		}
		refusesPrefixes(t, b, check)
		refusesMore(t, b, check)
	}
}

func FuzzMessage(f *testing.F) {
	for _, b := range messages() {
		f.Add(b)
	}
	for _, h := range fileCalls() {
		f.Add(h.AppendTo(nil))
	}
	f.Add(append(ptr(fileCalls()["lookup"]).AppendTo(nil), "d/f"...))
	f.Fuzz(func(t *testing.T, b []byte) { checkAnything(t, b) })
}
