package smbshare

import (
	"testing"

	"lwio/internal/smb/smbwire"
)

// A number is used up by a request that is done, and by no other. Each bucket has its own.
//
// Source: [MS-SMB2 3.2.4.19]
func TestOnlyDoneLocksUseUpNumbers(t *testing.T) {
	var q lockSequences
	want := func(bucket uint32, number uint8) (taken uint32) {
		t.Helper()
		b, s := q.take()
		if b != bucket || s != smbwire.LockSequence(bucket, number) {
			t.Errorf("bucket %d, sequence %#x", b, s)
		}
		return b
	}
	for range 40 {
		q.free(want(1, 1), false)
	}
	q.free(want(1, 1), true)
	first, second := want(1, 2), want(2, 1)
	q.free(second, true)
	q.free(first, false)
	b := want(1, 2)
	for range 3 {
		d := &doubt{bucket: b}
		q.add(d)
		q.drop(d, false)
		b = want(1, 2)
	}
	d := &doubt{bucket: b}
	q.add(d)
	if q.granted(d); !d.unlock || d.sequence != smbwire.LockSequence(1, 3) {
		t.Errorf("the end of a lock that was granted late: %+v", d)
	}
	q.drop(d, true)
	q.free(want(1, 4), true)
	var busy []uint32
	for range smbwire.LockBuckets {
		b, _ := q.take()
		busy = append(busy, b)
	}
	if b, s := q.take(); b != 0 || s != 0 {
		t.Errorf("with all buckets busy: %d, %#x", b, s)
	}
	for _, b := range busy {
		q.free(b, true)
	}
	q.free(0, true)
	for range 10 { // a number has four bits
		b, _ := q.take()
		q.free(b, true)
	}
	want(1, 0)
}
