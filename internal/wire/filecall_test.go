package wire

import (
	"math"
	"testing"
	"time"

	"lwio/internal/ntstatus"
)

// withFileCalls are the depicted limits on a connection with the extensions.
func withFileCalls() Limits {
	l := depicted
	l.FileCalls, l.Names = true, true
	return l
}

// theLock is the range of golden bytes, with index 3 and number 5.
var theLock = FileLock{Offset: 0x100002000, Length: 0x200001000, Sequence: 0x35}

// fileCalls are one of each file call, and its name.
func fileCalls() map[string]Header {
	return map[string]Header{
		"lock":        NewLock(0x1234, theLock, false),
		"shared lock": NewLock(0x1234, theLock, true),
		"unlock":      NewUnlock(0x1234, theLock),
		"sync":        NewSync(0x1234),
		"set size":    NewSetSize(0x1234, 0x100002000),
		"stat":        NewStat(0x1234, RDMARegion{DataVa: 0x5152535455565758, DataMh: 0x61626364, Length: StatInfoSize}),
		"lookup":      NewLookup(0x1234, RDMARegion{DataVa: 0x5152535455565758, DataMh: 0x61626364, Length: StatInfoSize}),
	}
}

// Source: [OP-116]
func TestFileCallsMatchGoldenBytes(t *testing.T) {
	const zero8 = "0000000000000000"
	at, length, sequence := row{"Offset", "0020000001000000"}, row{"Length of the range", "0010000002000000"}, row{"Sequence", "35000000"}
	noData := []row{{"Offset", zero8}, {"DataVa", zero8}, {"DataMh", "00000000"}}
	calls := fileCalls()
	for name, c := range map[string]struct {
		length, opcode string
		interrupt      string // flags
		polling        string
		fields         []row
	}{
		"lock":        {"30000000", "80", "80", "00", []row{at, length, sequence}},
		"shared lock": {"30000000", "80", "90", "10", []row{at, length, sequence}},
		"unlock":      {"30000000", "81", "80", "00", []row{at, length, sequence}},
		"sync":        {"30000000", "82", "80", "00", noData},
		"set size":    {"30000000", "83", "80", "00", []row{at, {"DataVa", zero8}, {"DataMh", "00000000"}}},
		"stat":        {"48000000", "84", "80", "00", []row{{"Offset", zero8}, {"DataVa", "5857565554535251"}, {"DataMh", "64636261"}}},
		"lookup":      {"48000000", "85", "80", "00", []row{{"Offset", zero8}, {"DataVa", "5857565554535251"}, {"DataMh", "64636261"}}},
	} {
		for way, how := range map[string]completion{c.interrupt: sent, c.polling: polled} {
			t.Run(name+", flags "+way, func(t *testing.T) {
				rows := append([]row{
					{"Length", c.length},
					{"Opcode", c.opcode},
					{"Flags", way},
					{"Credits", "02"},
					{"Marker", "ff"},
					{"Fid", "3412"},
					{"Sequence", "0100"},
					{"Tid", "00000000"},
				}, c.fields...)
				if how.polling {
					rows = append(rows, row{"IosMh", "34333231"}, row{"IosVa", "4847464544434241"})
				} else {
					rows = append(rows, row{"ImmediateCookie", "00000000"}, row{"Cookie", "efcdab8967452301"})
				}
				h := by(calls[name], how)
				h.SetPending(2)
				h.Sequence = 1
				b := golden(t, rows...)
				same(t, h.AppendTo(nil), b)
				got, err := decodeHeader(b)
				if err != nil || got != h {
					t.Errorf("decodes to %+v, %v", got, err)
				}
				if l := got.FileLock(); (got.Opcode == OpLock || got.Opcode == OpUnlock) && l != theLock {
					t.Errorf("names %+v", l)
				}
			})
		}
	}
}

// Source: [OP-116]
func TestFileCallCheckRefusesInvalidMessages(t *testing.T) {
	for name, good := range fileCalls() {
		cases := []checkCase{
			{"as it is", nil, HeaderSize, fine},
			{"polling", func(h *Header) { h.Flags &^= FlagInterrupt }, HeaderSize, fine},
			{"CONTROL is ignored", func(h *Header) { h.Flags |= FlagControl }, HeaderSize, fine},
			{"unknown flag", func(h *Header) { h.Flags |= 0x01 }, HeaderSize, invalid},
			{"collapsed", func(h *Header) { h.Flags |= FlagCollapse }, HeaderSize, invalid},
			{"cut off", nil, HeaderSize - 1, ended},
			{"no message at all", nil, 0, ended},
		}
		if good.Opcode == OpLock {
			cases = append(cases, checkCase{"any kind", func(h *Header) { h.Flags ^= FlagShared }, HeaderSize, fine})
		} else {
			cases = append(cases, checkCase{"shared", func(h *Header) { h.Flags |= FlagShared }, HeaderSize, invalid})
		}
		if good.Opcode == OpLookup {
			cases = append(cases,
				checkCase{"with a name", nil, HeaderSize + 1, fine},
				checkCase{"with the longest name", nil, HeaderSize + MaxLookup, fine},
				checkCase{"with a longer name", nil, HeaderSize + MaxLookup + 1, ended})
		} else {
			cases = append(cases, checkCase{"with a body", nil, HeaderSize + 1, ended})
		}
		switch good.Opcode {
		case OpStat, OpLookup:
			cases = append(cases,
				checkCase{"more room", func(h *Header) { h.Length = math.MaxUint32 }, HeaderSize, fine},
				checkCase{"too little room", func(h *Header) { h.Length-- }, HeaderSize, invalid})
		case OpSetSize:
			cases = append(cases,
				checkCase{"another length", func(h *Header) { h.Length++ }, HeaderSize, ended},
				checkCase{"the largest file", func(h *Header) { h.Offset = math.MaxInt64 }, HeaderSize, fine},
				checkCase{"a larger file", func(h *Header) { h.Offset = math.MaxInt64 + 1 }, HeaderSize, invalid})
		default:
			cases = append(cases, checkCase{"another length", func(h *Header) { h.Length++ }, HeaderSize, ended})
		}
		for _, c := range cases {
			t.Run(name+": "+c.name, func(t *testing.T) {
				h := by(good, sent)
				if c.change != nil {
					c.change(&h)
				}
				want(t, h.Check(c.received, withFileCalls()), c.outcome)
			})
		}
	}
}

// Every prefix of a file call, and a byte too many, ends the connection.
//
// Source: [OP-116]
func TestFileCallsRefuseOtherSizes(t *testing.T) {
	check := func(b []byte) error {
		h, err := decodeHeader(b)
		if err != nil {
			return err
		}
		return h.Check(len(b), withFileCalls())
	}
	for _, h := range fileCalls() {
		for _, how := range []completion{sent, polled} {
			h := by(h, how)
			refusesPrefixes(t, h.AppendTo(nil), check)
			if h.Opcode != OpLookup {
				refusesMore(t, h.AppendTo(nil), check)
			}
		}
	}
}

// On a connection without the extension the opcodes are unknown.
//
// Source: [OP-116], [OP-92e]
func TestFileCallsAreUnknownWithoutTheExtension(t *testing.T) {
	bare := depicted
	for _, h := range fileCalls() {
		want(t, ptr(by(h, sent)).Check(HeaderSize, depicted), outcome{status: ntstatus.InvalidDeviceRequest})
		want(t, ptr(by(h, polled)).Check(HeaderSize, depicted), ended)
		if l := withFileCalls(); bare.Counts(h.Opcode) || !l.Counts(h.Opcode) || h.Opcode.IO() || h.Opcode.Known() {
			t.Errorf("%v counts as I/O", h.Opcode)
		}
	}
	if !bare.Counts(OpRead) || bare.Counts(OpClose) {
		t.Error("READ is I/O, and CLOSE is not")
	}
}

// On a connection with file calls and without names, LOOKUP alone is unknown. Names need file calls.
//
// Source: [OP-118]
func TestLookupNeedsNames(t *testing.T) {
	l := withFileCalls()
	l.Names = false
	for name, h := range fileCalls() {
		expected := fine
		if h.Opcode == OpLookup {
			expected = outcome{status: ntstatus.InvalidDeviceRequest}
		}
		want(t, ptr(by(h, sent)).Check(HeaderSize, l), expected)
		if l.Counts(h.Opcode) == (h.Opcode == OpLookup) {
			t.Errorf("%s counts, or does not", name)
		}
	}
	for offered, agreed := range map[Extensions]Extensions{
		0: 0, FileCalls: FileCalls, Names: 0, FileCalls | Names: FileCalls | Names, FileCalls | Names | 1<<31: FileCalls | Names, 1 << 2: 0,
	} {
		if got := offered.Agreed(); got != agreed {
			t.Errorf("of %#x a connection has %#x", offered, got)
		}
	}
}

// Source: [OP-116], [OP-118]
func TestFileCallNames(t *testing.T) {
	for op, name := range map[Opcode]string{
		0x7F: "opcode 0x7F", 0x80: "LOCK", 0x81: "UNLOCK", 0x82: "SYNC", 0x83: "SETSIZE", 0x84: "STAT", 0x85: "LOOKUP", 0x86: "opcode 0x86",
	} {
		if op.String() != name || op.FileCall() != (op >= 0x80 && op <= 0x85) || op.Describes() != (op == 0x84 || op == 0x85) {
			t.Errorf("%d is %v", uint8(op), op)
		}
	}
}

// Source: [OP-116], [MS-DTYP 2.3.3]
func TestStatInfoMatchesGoldenBytes(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)
	info := StatInfo{
		Created: at, Accessed: time.Unix(0, 0).UTC(), Modified: time.Time{}, Changed: at.Add(time.Second),
		AllocationSize: 0x1000, Size: 0x102, ID: 0x1112131415161718, Attributes: 0x20, Links: 3, DeletePending: true,
	}
	b := golden(t,
		row{"Created", "86004074947bdc01"},
		row{"Accessed", "00803ed5deb19d01"},
		row{"Modified", "0000000000000000"},
		row{"Changed", "0697d874947bdc01"},
		row{"AllocationSize", "0010000000000000"},
		row{"Size", "0201000000000000"},
		row{"ID", "1817161514131211"},
		row{"Attributes", "20000000"},
		row{"Links", "03000000"},
		row{"Flags", "01000000"},
		row{"0", "00000000"},
	)
	same(t, info.AppendTo(nil), b)
	got, err := DecodeStatInfo(b)
	if err != nil || got != info {
		t.Errorf("decodes to %+v, %v", got, err)
	}
	decode := func(b []byte) error { _, err := DecodeStatInfo(b); return err }
	refusesPrefixes(t, b, decode)
	refusesMore(t, b, decode)
}

// Times that the wire cannot carry become the nearest that it can, or none.
//
// Source: [MS-DTYP 2.3.3]
func TestStatInfoTimes(t *testing.T) {
	for _, c := range []struct {
		t     time.Time
		ticks uint64
	}{
		{time.Time{}, 0},
		{time.Date(1600, 12, 31, 23, 59, 59, 0, time.UTC), 0},
		{time.Date(1601, 1, 1, 0, 0, 0, 199, time.UTC), 1},
		{time.Date(40000, 1, 1, 0, 0, 0, 0, time.UTC), math.MaxInt64},
	} {
		if got := ticksOf(c.t); got != c.ticks {
			t.Errorf("%v: %d ticks, want %d", c.t, got, c.ticks)
		}
	}
	if !timeOf(1<<63).IsZero() || timeOf(10_000_000).Unix() != -epochSeconds+1 {
		t.Error(timeOf(1<<63), timeOf(10_000_000))
	}
}

// Source: [OP-116]
func TestExtensionsThatWereNotOfferedAreRefused(t *testing.T) {
	client, p := clientParams(), serverParams()
	client.Extensions, p.Extensions = FileCalls, FileCalls
	want(t, p.CheckServer(&client), fine)
	p.Extensions |= 2
	want(t, p.CheckServer(&client), denied)
	client.Extensions, p.Extensions = 0, FileCalls
	want(t, p.CheckServer(&client), denied)
}
