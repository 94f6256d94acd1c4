package smbshare

import (
	"slices"
	"sync"

	"lwio/internal/smb/smbwire"
)

// lockSequences numbers the LOCK requests of a persistent open, so that a repeated one is done once. A
// bucket has one request at a time. A number is used up by a request that the server has done, and by no other: the server
// compares a number with that of the last request that it has done, and numbers have four bits, so a number that others
// use up comes back. The zero value is ready. Safe for concurrent use.
//
// Source: [MS-SMB2 3.2.4.19]
type lockSequences struct {
	mu     sync.Mutex
	busy   [smbwire.LockBuckets]bool
	number [smbwire.LockBuckets]uint8 // of the last request that was done
	doubts []*doubt
}

// doubt is a LOCK request that was given up while its outcome was unknown. It keeps its bucket.
type doubt struct {
	bucket    uint32
	sequence  uint32
	r         Range
	unlock    bool
	exclusive bool
	on        *link // the link on which the response may still arrive; nil if it is lost
	over      bool  // the response has arrived
}

// take returns a free bucket, counted from 1, and the sequence of its next request. It returns zeros
// if all buckets are busy.
func (q *lockSequences) take() (bucket, sequence uint32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.takeLocked()
}

// takeLocked is take. Precondition: mu is held.
func (q *lockSequences) takeLocked() (bucket, sequence uint32) {
	i := slices.Index(q.busy[:], false)
	if i < 0 {
		return 0, 0
	}
	q.busy[i] = true
	bucket = uint32(i) + 1
	return bucket, smbwire.LockSequence(bucket, q.number[i]+1)
}

// free frees a bucket, whose request the server has done or has not. Bucket 0 is allowed.
func (q *lockSequences) free(bucket uint32, done bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.freeLocked(bucket, done)
}

// freeLocked is free. Precondition: mu is held.
func (q *lockSequences) freeLocked(bucket uint32, done bool) {
	if bucket == 0 {
		return
	}
	q.busy[bucket-1] = false
	if done {
		q.number[bucket-1]++
	}
}

// add adds a doubt, unless the response has arrived meanwhile.
func (q *lockSequences) add(d *doubt) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !d.over {
		q.doubts = append(q.doubts, d)
	}
}

// drop removes a doubt, whose request the server has done or has not, and frees its bucket.
func (q *lockSequences) drop(d *doubt, done bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	d.over = true
	q.doubts = slices.DeleteFunc(q.doubts, func(x *doubt) bool { return x == d })
	q.freeLocked(d.bucket, done)
}

// granted makes the doubt about a lock that was granted too late one about the end of that lock.
func (q *lockSequences) granted(d *doubt) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.freeLocked(d.bucket, true)
	d.unlock = true
	d.bucket, d.sequence = q.takeLocked()
}

// open returns the doubts whose outcome can be asked for on l.
func (q *lockSequences) open(l *link) []*doubt {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(q.doubts), func(d *doubt) bool { return d.on == l })
}
