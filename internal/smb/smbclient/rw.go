package smbclient

import (
	"context"
	"errors"
	"fmt"
	"io"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

const (
	// maxPiece is up to how many bytes a read or write is one request.
	maxPiece = 1 << 20
	// window is how many pieces of one call are in flight.
	window = 8
)

// piece is one request of a read or write.
type piece struct {
	p     *pending
	at, n int // which bytes of the caller's
}

// transfer is a read or write that is under way.
type transfer struct {
	f    *File
	ctx  context.Context
	p    []byte
	off  int64
	most int // bytes in a piece
	make func(at, n int) part
	done func(x piece, r *response) (int, error)
	// whole: what is in flight when a piece is refused is waited for, because it may still be
	// done.
	whole bool

	queue []piece
	next  int // the first byte that no piece has been sent for
}

// run sends pieces and waits for them, in order. It returns how many bytes are
// done from the start on; less than all only with an error.
func (x *transfer) run() (n int, err error) {
	var room [window]piece
	x.queue = room[:0]
	defer x.abandon()
	for n < len(x.p) {
		if err := x.fill(); err != nil {
			return n, err
		}
		one := x.queue[0]
		copy(x.queue, x.queue[1:])
		x.queue = x.queue[:len(x.queue)-1]
		got, err := x.outcome(one)
		n += got
		if err != nil {
			return n, x.rest(err)
		}
	}
	return n, nil
}

// outcome waits for one piece.
func (x *transfer) outcome(one piece) (int, error) {
	c := x.f.t.s.conn
	r, err := c.result(x.ctx, one.p)
	if err != nil {
		return 0, err
	}
	defer c.free(r)
	return x.done(one, r)
}

// rest waits, after the server has refused a piece, for those that may still be done, and
// returns why. If nobody knows of one of them that is the error, and no longer what the
// server said. After a piece of which nobody knows there is nothing to wait for.
func (x *transfer) rest(why error) error {
	if !x.whole || !Refused(why) {
		return why
	}
	c := x.f.t.s.conn
	for len(x.queue) > 0 {
		one := x.queue[0]
		x.queue = x.queue[1:]
		r, err := c.wait(x.ctx, one.p)
		if err != nil {
			return fmt.Errorf("%w, after %v", err, why) //nolint:errorlint // that one is over, the write is not
		}
		c.free(r)
	}
	return why
}

// Refused tells whether an error of WriteAt is the server's: it has said that it did not do
// all of the write, and no part of it is still to come. After any other error nobody knows,
// nor after an answer that says nothing.
func Refused(err error) bool {
	var refused ntstatus.Status
	var over overError
	return errors.As(err, &refused) && !errors.Is(err, ErrProtocol) || errors.As(err, &over) || errors.Is(err, io.ErrShortWrite)
}

// fill sends pieces as long as there is room in the window and credits are there;
// one is always in flight when it returns.
func (x *transfer) fill() error {
	c := x.f.t.s.conn
	for x.next < len(x.p) && len(x.queue) < window {
		n := min(len(x.p)-x.next, x.most)
		want := c.charge(n)
		got, err := want, error(nil)
		if len(x.queue) > 0 {
			if !c.takeNow(want) {
				return nil
			}
		} else if got, err = c.take(x.ctx, 1, want); err != nil {
			return err
		}
		if got < want {
			n = min(n, got*creditUnit)
		}
		list, err := c.sendTaken(x.ctx, []part{x.make(x.next, n)})
		if err != nil {
			return err
		}
		x.queue = append(x.queue, piece{list[0], x.next, n})
		x.next += n
	}
	return nil
}

// abandon gives up what is still in flight.
func (x *transfer) abandon() {
	for _, one := range x.queue {
		x.f.t.s.conn.abandon(one.p, true)
	}
}

// takeNow takes credits if that is possible without waiting.
func (c *conn) takeNow(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || len(c.credits.queue) > 0 || c.credits.held < n {
		return false
	}
	c.credits.held -= n
	c.credits.spent += n
	return true
}

// check refuses what cannot be asked for.
func (f *File) check(n int, off int64) error {
	switch {
	case f.closed.Load():
		return ntstatus.FileClosed
	case off < 0 || off+int64(n) < off:
		return ntstatus.InvalidParameter
	}
	return nil
}

// ReadAt fills p from byte off on. It returns n < len(p) only with an error:
// io.EOF where the file ends. p is not used any more when it returns.
//
// An answer that is shorter than what was asked for is taken for the file's end.
//
// Source: [MS-SMB2 3.2.4.6], [MS-SMB2 3.2.5.11]
func (f *File) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if err := f.check(len(p), off); err != nil {
		return 0, fail("read", f.name, err)
	}
	x := transfer{f: f, ctx: ctx, p: p, off: off, most: min(maxPiece, f.t.MaxRead())}
	x.make = func(at, n int) part {
		return part{command: smbwire.CommandRead, treeID: f.t.id, payload: n, body: &smbwire.ReadRequest{
			Padding: smbwire.HeaderSize + smbwire.ReadResponseFixed, Length: uint32(n), Offset: uint64(off) + uint64(at), FileID: f.id,
		}}
	}
	x.done = func(one piece, r *response) (int, error) {
		resp, err := smbwire.DecodeReadResponse(r.body())
		if err != nil || len(resp.Data) > one.n {
			return 0, fmt.Errorf("%w: %d bytes read of %d, %w", ErrProtocol, len(resp.Data), one.n, cause(err))
		}
		if n := copy(p[one.at:], resp.Data); n < one.n {
			return n, io.EOF
		}
		return one.n, nil
	}
	n, err := x.run()
	if err == io.EOF || err == ntstatus.EndOfFile { //nolint:errorlint // neither is wrapped
		return n, io.EOF
	}
	return n, fail("read", f.name, err)
}

// WriteAt writes p at byte off. It returns n < len(p) only with an error; what
// was behind the first n bytes may have been written too. p is not used any more
// when it returns. If the error is not one of those that Refused tells, but ctx's for
// instance, the server may still be writing: see Settle.
//
// Source: [MS-SMB2 3.2.4.7], [MS-SMB2 3.2.5.12]
func (f *File) WriteAt(ctx context.Context, p []byte, off int64) (int, error) {
	if err := f.check(len(p), off); err != nil {
		return 0, fail("write", f.name, err)
	}
	x := transfer{f: f, ctx: ctx, p: p, off: off, most: min(maxPiece, f.t.MaxWrite()), whole: true}
	x.make = func(at, n int) part {
		return part{command: smbwire.CommandWrite, treeID: f.t.id, payload: n, changes: f, body: &smbwire.WriteRequest{
			Offset: uint64(off) + uint64(at), FileID: f.id, Data: p[at : at+n],
		}}
	}
	x.done = func(one piece, r *response) (int, error) {
		resp, err := smbwire.DecodeWriteResponse(r.body())
		if err != nil || int64(resp.Count) > int64(one.n) {
			return 0, fmt.Errorf("%w: %d bytes written of %d, %w", ErrProtocol, resp.Count, one.n, cause(err))
		}
		if int(resp.Count) < one.n {
			return int(resp.Count), io.ErrShortWrite
		}
		return one.n, nil
	}
	n, err := x.run()
	return n, fail("write", f.name, err)
}
