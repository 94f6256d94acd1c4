package smbserver

import (
	"sync"

	"lwio/internal/smb/smbwire"
)

// lockSequences are the numbers of the last successful LOCK requests of a durable open, by bucket. A
// request with the number of its bucket is a repetition: it succeeds and does nothing. Safe for
// concurrent use.
//
// Source: [MS-SMB2 3.3.1.10], [MS-SMB2 3.3.5.14]
type lockSequences struct {
	mu   sync.Mutex
	last [smbwire.LockBuckets]uint8 // number + 1; 0 for none
}

// repeated reports whether a request was done before. If not, its bucket is empty until done.
func (l *lockSequences) repeated(q *smbwire.LockRequest) bool {
	bucket, number := q.Bucket()
	if bucket == 0 || bucket > smbwire.LockBuckets {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	last := &l.last[bucket-1]
	if *last == number+1 {
		return true
	}
	*last = 0
	return false
}

// done records a successful request.
func (l *lockSequences) done(q *smbwire.LockRequest) {
	bucket, number := q.Bucket()
	if bucket == 0 || bucket > smbwire.LockBuckets {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last[bucket-1] = number + 1
}
