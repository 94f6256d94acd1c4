package smbclient

import "context"

// unsettled counts the changes of a file that were given up and have no final answer yet:
// the server may still do them. The connection's mu guards it.
type unsettled struct {
	n    int
	none chan struct{} // closed when n is 0 again; nil if it is
}

func (u *unsettled) addLocked() {
	if u.n++; u.n == 1 {
		u.none = make(chan struct{})
	}
}

func (u *unsettled) doneLocked() {
	if u.n--; u.n == 0 {
		close(u.none)
		u.none = nil
	}
}

// Settle waits until no write and no change of size, name or attributes of the file that
// was given up may still be done: the server has answered each of them, if only to its
// CANCEL.
//
// Errors: ctx's; the end of the connection, after which nobody can know.
//
// Source: [MS-SMB2 3.2.4.24], [MS-SMB2 3.3.5.16]
func (f *File) Settle(ctx context.Context) error {
	c := f.t.s.conn
	c.mu.Lock()
	none, err := f.unsettled.none, c.err
	c.mu.Unlock()
	if none == nil || err != nil {
		return fail("settle", f.name, err)
	}
	select {
	case <-none:
		return nil
	case <-c.down:
		return fail("settle", f.name, c.broken())
	case <-ctx.Done():
		return fail("settle", f.name, ctx.Err())
	}
}
