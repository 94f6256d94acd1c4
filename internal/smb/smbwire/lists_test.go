package smbwire

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var dirClasses = []DirClass{
	ClassDirectory, ClassFullDirectory, ClassBothDirectory, ClassNames, ClassIDBothDirectory, ClassIDFullDirectory, ClassIDExtdDirectory,
}

// sampleEntry has every field set.
func sampleEntry() DirEntry {
	return DirEntry{
		FileIndex: 0x11, FileTimes: sampleTimes, EndOfFile: 5, AllocationSize: 0x1000, FileAttributes: 0x20, EASize: 0x22,
		FileID: 0x0102030405060708, Name: text("name"), ShortName: text("SH"),
	}
}

const (
	entryHead  = "00000000 11000000"
	entryBody  = timesWire + "0500000000000000 0010000000000000 20000000 08000000"
	entryEA    = "22000000"
	entryShort = "04 00 53004800 0000000000000000000000000000000000000000"
	entryID    = "0807060504030201"
	entryName  = "6e0061006d006500"
)

// Source: [MS-FSCC 2.4.10], [MS-FSCC 2.4.14], [MS-FSCC 2.4.8], [MS-FSCC 2.4.33], [MS-FSCC 2.4.17], [MS-FSCC 2.4.18]
func TestDirEntryGolden(t *testing.T) {
	for class, wire := range map[DirClass]string{
		ClassDirectory:       entryHead + entryBody + entryName,
		ClassFullDirectory:   entryHead + entryBody + entryEA + entryName,
		ClassBothDirectory:   entryHead + entryBody + entryEA + entryShort + entryName,
		ClassNames:           entryHead + "08000000" + entryName,
		ClassIDBothDirectory: entryHead + entryBody + entryEA + entryShort + "0000" + entryID + entryName,
		ClassIDFullDirectory: entryHead + entryBody + entryEA + "00000000" + entryID + entryName,
		ClassIDExtdDirectory: entryHead + entryBody + entryEA + "00000000" + entryID + "0000000000000000" + entryName,
	} {
		e, want := sampleEntry(), unhex(t, wire)
		b, at := AppendDirEntry(nil, 0, -1, class, &e)
		if !bytes.Equal(b, want) || at != 0 {
			t.Errorf("class %d: %x, want %x", class, b, want)
		}
		if n := DirEntrySize(class, len(e.Name)); n != len(want) {
			t.Errorf("class %d: size %d, want %d", class, n, len(want))
		}
		for n := range want {
			if _, _, err := NextDirEntry(class, want[:n:n]); err == nil {
				t.Errorf("class %d: %d of %d bytes were accepted", class, n, len(want))
			}
		}
	}
}

// Changes are aligned to four bytes, and the last one has no padding. No prefix of the list is a list.
//
// Source: [MS-FSCC 2.7.1], [MS-SMB2 2.2.36]
func TestNotifyInfoGolden(t *testing.T) {
	list := []NotifyInfo{{1, text("a")}, {4, text("ab")}, {5, text(`d\n`)}}
	want := unhex(t, "10000000 01000000 02000000 6100 0000"+"10000000 04000000 04000000 61006200"+"00000000 05000000 06000000 64005c006e00")
	got, last := []byte("before"), -1
	for _, i := range list {
		got, last = AppendNotifyInfo(got, len("before"), last, &i)
	}
	if got = got[len("before"):]; !bytes.Equal(got, want) {
		t.Fatalf("%x, want %x", got, want)
	}
	parse := func(b []byte) (all []NotifyInfo, err error) {
		for b != nil {
			var i NotifyInfo
			if i, b, err = NextNotifyInfo(b); err != nil {
				return nil, err
			}
			all = append(all, i)
		}
		return all, nil
	}
	if all, err := parse(want); err != nil || !cmp.Equal(all, list) {
		t.Errorf("decoded: %v, %v", all, err)
	}
	for n := 1; n < len(want); n++ {
		if all, err := parse(want[:n:n]); err == nil {
			t.Errorf("%d of %d bytes are a list: %v", n, len(want), all)
		}
	}
}

// known returns e with the fields that the class carries.
func known(c DirClass, e DirEntry) DirEntry {
	l, _ := c.layout()
	if c == ClassNames {
		return DirEntry{FileIndex: e.FileIndex, Name: e.Name}
	}
	if l.eaSize == 0 {
		e.EASize = 0
	}
	if l.fileID == 0 {
		e.FileID = 0
	}
	if l.shortName == 0 {
		e.ShortName = nil
	}
	return e
}

// Source: [MS-SMB2 2.2.34], [MS-FSCC 2.4]
func TestDirEntryListRoundTrip(t *testing.T) {
	lists := rapid.SliceOfN(rapid.Make[DirEntry](), 1, 5)
	rapid.Check(t, func(t *rapid.T) {
		class := rapid.SampledFrom(dirClasses).Draw(t, "class")
		want := lists.Draw(t, "list")
		b, last := []byte{1, 2, 3}, -1
		start := len(b)
		for i := range want {
			want[i].ShortName = want[i].ShortName[:min(len(want[i].ShortName), maxShortName)]
			b, last = AppendDirEntry(b, start, last, class, &want[i])
			if (last-start)%8 != 0 {
				t.Fatalf("entry %d begins at %d", i, last-start)
			}
		}
		for i, more := 0, b[start:]; ; i++ {
			e, rest, err := NextDirEntry(class, more)
			if diff := cmp.Diff(known(class, want[i]), e, cmpopts.EquateEmpty()); err != nil || diff != "" {
				t.Fatalf("entry %d: %v %s", i, err, diff)
			}
			if more = rest; more == nil {
				if i != len(want)-1 {
					t.Fatalf("%d entries, want %d", i+1, len(want))
				}
				return
			}
		}
	})
}

// Source: [MS-FSCC 2.4]
func TestDirEntryRefusals(t *testing.T) {
	e := sampleEntry()
	b, _ := AppendDirEntry(nil, 0, -1, ClassIDBothDirectory, &e)
	b, last := AppendDirEntry(b, 0, 0, ClassIDBothDirectory, &e)
	for name, change := range map[string]func(b []byte){
		"next into itself":  func(b []byte) { le.PutUint32(b, 8) },
		"next unaligned":    func(b []byte) { le.PutUint32(b, uint32(last)+1) },
		"next outside":      func(b []byte) { le.PutUint32(b, 1<<31) },
		"name too long":     func(b []byte) { le.PutUint32(b[60:], 1<<31) },
		"name into next":    func(b []byte) { le.PutUint32(b[60:], 64) },
		"short name length": func(b []byte) { b[68] = 25 },
	} {
		bad := bytes.Clone(b)
		change(bad)
		if _, _, err := NextDirEntry(ClassIDBothDirectory, bad); !errors.Is(err, ErrOffset) && !errors.Is(err, ErrValue) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := NextDirEntry(99, b); !errors.Is(err, ErrValue) {
		t.Errorf("unknown class: %v", err)
	}
	if got, at := AppendDirEntry(b, 0, 7, 99, &e); len(got) != len(b) || at != 7 || DirClass(99).Known() || DirEntrySize(99, 1) != 0 {
		t.Error("an unknown class was encoded")
	}
}

// Source: [MS-FSCC 2.4.49]
func TestStreamInfoListRoundTrip(t *testing.T) {
	raw := unhex(t, "20000000 04000000 0100000000000000 0200000000000000 61006200 00000000"+
		"00000000 02000000 0300000000000000 0400000000000000 6300")
	want := []StreamInfo{{1, 2, text("ab")}, {3, 4, text("c")}}
	if got := AppendStreamInfo(nil, want...); !bytes.Equal(got, raw) {
		t.Errorf("%x, want %x", got, raw)
	}
	got, err := DecodeStreamInfo(raw)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for n := 1; n < len(raw); n++ {
		if _, err := DecodeStreamInfo(raw[:n:n]); err == nil {
			t.Errorf("%d of %d bytes were accepted", n, len(raw))
		}
	}
	if list, err := DecodeStreamInfo(nil); list != nil || err != nil {
		t.Error(list, err)
	}
}

// Source: [MS-SMB2 2.2.3.1.2], [MS-SMB2 2.2.3.1.7]
func TestAlgorithmListsRoundTrip(t *testing.T) {
	raw := unhex(t, "0200 0200 0100")
	if got := AppendAlgorithms(nil, SigningAESGMAC, SigningAESCMAC); !bytes.Equal(got, raw) {
		t.Errorf("%x", got)
	}
	got, err := DecodeAlgorithms(raw)
	if diff := cmp.Diff([]uint16{2, 1}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for n := range raw {
		if _, err := DecodeAlgorithms(raw[:n]); !errors.Is(err, ErrShort) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// A server cuts the name of ClassAll to the room of the client.
//
// Source: [MS-FSCC 2.4.2], [MS-SMB2 3.3.5.20.1]
func TestAllInfoWithCutName(t *testing.T) {
	want := AllInfo{FileID: 5, Name: text("abcdef")}
	raw := want.AppendTo(nil)
	got, err := DecodeAllInfo(raw[:len(raw)-4])
	if want.Name = text("abcd"); err != nil || cmp.Diff(want, got) != "" {
		t.Error(err, cmp.Diff(want, got))
	}
}

// FuzzLists feeds the decoders of lists.
//
// Source: [MS-SMB2 2.2.34], [MS-FSCC 2.4], [MS-SMB2 2.2.3.1.2]
func FuzzLists(f *testing.F) {
	e := sampleEntry()
	for _, c := range dirClasses {
		b, last := AppendDirEntry(nil, 0, -1, c, &e)
		b, _ = AppendDirEntry(b, 0, last, c, &e)
		f.Add(byte(c), b)
	}
	f.Add(byte(ClassStream), AppendStreamInfo(nil, StreamInfo{1, 2, text("ab")}, StreamInfo{Name: text("c")}))
	f.Add(byte(255), AppendAlgorithms(nil, 1, 2))
	f.Fuzz(func(t *testing.T, class byte, raw []byte) {
		switch class {
		case byte(ClassStream):
			list, err := DecodeStreamInfo(raw)
			if err != nil {
				return
			}
			again, err := DecodeStreamInfo(AppendStreamInfo(nil, list...))
			if diff := cmp.Diff(list, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
				t.Fatal(err, diff)
			}
		case 255:
			if list, err := DecodeAlgorithms(raw); err == nil && !bytes.HasPrefix(raw, AppendAlgorithms(nil, list...)) {
				t.Fatal(list)
			}
		default:
			for more := raw; more != nil; {
				one, next, err := NextDirEntry(DirClass(class), more)
				if err != nil {
					return
				}
				b, _ := AppendDirEntry(nil, 0, -1, DirClass(class), &one)
				again, _, err := NextDirEntry(DirClass(class), b)
				if diff := cmp.Diff(one, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
					t.Fatal(err, diff)
				}
				more = next
			}
		}
	})
}
