package smbclient

import (
	"context"
	"sync"
)

// unsettled counts the abandoned changes of a file that have no final response: the server
// may still execute them. The zero value has none. It is safe for concurrent use.
type unsettled struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n is zero again; nil if it is
}

func (u *unsettled) add() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.n++; u.n == 1 {
		u.none = make(chan struct{})
	}
}

func (u *unsettled) done() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.n--; u.n == 0 {
		close(u.none)
		u.none = nil
	}
}

// settled returns a channel that is closed when no change is unsettled; nil if none is now.
func (u *unsettled) settled() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.none
}

// Settle waits until no abandoned write and no abandoned change of size, name or attributes
// of the file can take effect any more: the server has responded to each of them, if only
// to its CANCEL.
//
// Errors: the error of ctx; the end of the connection, after which the outcome stays
// unknown.
//
// Source: [MS-SMB2 3.2.4.24], [MS-SMB2 3.3.5.16]
func (f *File) Settle(ctx context.Context) error {
	end, settled := f.t.s.conn.end, f.unsettled.settled()
	if err := end.cause(); settled == nil || err != nil {
		return err
	}
	select {
	case <-settled:
		return nil
	case <-end.down:
		return end.cause()
	case <-ctx.Done():
		return timely(ctx.Err())
	}
}
