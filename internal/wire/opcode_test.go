package wire

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"lwio/internal/ntstatus"
)

// The first six opcodes are in claim 15; the others exist as well.
//
// Source: [LWIO §Network Discovery], [LWIO claim 15], [OP-1], [OP-2], [OP-99]
func TestOpcodeNumbersAndNames(t *testing.T) {
	for _, c := range []struct {
		op           Opcode
		value        uint8
		name         string
		io, vectored bool
	}{
		{OpRead, 0, "READ", true, false},
		{OpWrite, 1, "WRITE", true, false},
		{OpVecRead, 2, "VEC_READ", true, true},
		{OpVecWrite, 3, "VEC_WRITE", true, true},
		{OpClose, 4, "CLOSE", false, false},
		{OpCancel, 5, "CANCEL", false, false},
		{OpAuth, 6, "AUTH", false, false},
		{OpRegister, 7, "REGISTER", false, false},
		{OpCredit, 8, "CREDIT", false, false},
		{OpInterrupt, 9, "INTERRUPT", false, false},
	} {
		if uint8(c.op) != c.value || c.op.String() != c.name || c.op.IO() != c.io || c.op.Vectored() != c.vectored || !c.op.Known() {
			t.Errorf("%v: value %d, I/O %v, vectored %v", c.op, uint8(c.op), c.op.IO(), c.op.Vectored())
		}
	}
	if op := Opcode(10); op.Known() || op.String() != "opcode 0x0A" {
		t.Errorf("%v is known", op)
	}
}

// Source: [LWIO §Network Discovery], [LWIO claim 17], [LWIO claim 19], [OP-3], [OP-4]
func TestConstantsOfTheText(t *testing.T) {
	if FlagInterrupt != 0x80 || FlagControl != 0x40 || FlagCollapse != 0x20 {
		t.Errorf("flags %#x, %#x, %#x", FlagInterrupt, FlagControl, FlagCollapse)
	}
	if RevID != 0x1001 || opNegotiate != 0xFE || Marker != 0xFF || NotifyCredit != 1 || NoIntermediateBuffering != 8 {
		t.Errorf("%#x, %#x, %#x, %d, %d", RevID, opNegotiate, Marker, NotifyCredit, NoIntermediateBuffering)
	}
}

// A message that no other test has: with an unknown opcode.
//
// Source: [OP-92e]
func TestCheckUnknownOpcode(t *testing.T) {
	unsupported := outcome{status: ntstatus.InvalidDeviceRequest}
	for op := Opcode(OpInterrupt + 1); op != 0; op++ {
		h := Header{Opcode: op, Flags: FlagInterrupt, Length: HeaderSize}
		want(t, h.Check(HeaderSize, depicted), unsupported)
		h.Flags = 0
		want(t, h.Check(HeaderSize, depicted), ended)
	}
}

// A message longer than the receive buffers, or shorter than a header, ends the connection,
// whichever its opcode is.
//
// Source: [LWIO §Write], [OP-27], [OP-63]
func TestCheckRefusesSizesOutOfBounds(t *testing.T) {
	for op := range Opcode(12) {
		for _, n := range []int{0, HeaderSize - 1, HeaderSize + int(depicted.MaxRecvBufferSize) + 1} {
			t.Run(fmt.Sprint(op, " of ", n), func(t *testing.T) {
				h := Header{Opcode: op, Flags: FlagInterrupt, Length: uint32(n)}
				want(t, h.Check(n, depicted), ended)
			})
		}
	}
}

// The dissector for Wireshark names each opcode.
//
// Source: [OP-118]
func TestDissectorHasOpcodes(t *testing.T) {
	b, err := os.ReadFile("../../packaging/wireshark/lwio.lua")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 256 {
		op := Opcode(i)
		if entry := fmt.Sprintf("[0x%02x] = %q,", i, op); (op.Known() || op.FileCall()) != strings.Contains(string(b), entry) {
			t.Errorf("%v: the dissector has %s: %v", op, entry, strings.Contains(string(b), entry))
		}
	}
}
