package smbserver

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lwio/vfs"
)

// wholeRecord has a value in each field.
var wholeRecord = openRecord{
	client: [16]byte{1}, guid: [16]byte{2}, app: [16]byte{4}, user: "alice", domain: "HOME", timeout: time.Minute,
	action: vfs.Created, other: "dir/g", deleting: true, unsynced: true, closed: true,
	file: vfs.Record{
		Share: "data", Path: "dir/f", Identity: []byte("inode"), Granted: 3, ShareMode: 7, Options: 0x40, Key: [24]byte{3},
	},
}

// The decoder returns the encoded record, and refuses each shorter and longer record.
func TestOpenRecordRoundTrip(t *testing.T) {
	equal := cmp.AllowUnexported(openRecord{})
	for _, r := range []openRecord{wholeRecord, {file: vfs.Record{Identity: []byte{}}}} {
		b := r.appendTo(nil)
		got, err := decodeOpenRecord(b)
		if err != nil || !cmp.Equal(got, r, equal) {
			t.Errorf("%v\n%s", err, cmp.Diff(r, got, equal))
		}
		for n := range b {
			if _, err := decodeOpenRecord(b[:n]); err == nil {
				t.Errorf("%d of %d bytes are a record", n, len(b))
			}
		}
		if _, err := decodeOpenRecord(append(b, 0)); err == nil {
			t.Error("a record with a byte more is a record")
		}
	}
	old, want := wholeRecord.appendTo(nil), wholeRecord // of the version before
	old, want.app = append(append([]byte{1}, old[1:57]...), old[73:]...), [16]byte{}
	if got, err := decodeOpenRecord(old); err != nil || !cmp.Equal(got, want, equal) {
		t.Errorf("%v\n%s", err, cmp.Diff(want, got, equal))
	}
	for _, l := range []vfs.Lock{{}, {Range: vfs.Range{Off: 1, Len: 1 << 63}, Exclusive: true}} {
		b := appendLock(nil, l)
		if got, err := decodeLock(b); err != nil || got != l {
			t.Errorf("%+v, %v; want %+v", got, err, l)
		}
		for n := range b {
			if _, err := decodeLock(b[:n]); err == nil {
				t.Errorf("%d bytes are a lock", n)
			}
		}
	}
}

func FuzzOpenRecord(f *testing.F) {
	f.Add(wholeRecord.appendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeOpenRecord(b)
		if err != nil {
			return
		}
		again := r.appendTo(nil)
		if other, err := decodeOpenRecord(again); err != nil || !bytes.Equal(other.appendTo(nil), again) {
			t.Errorf("%+v became %+v: %v", r, other, err)
		}
	})
}
