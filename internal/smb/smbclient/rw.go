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
	// maxPiece bounds the payload of one request of a read or write, in bytes.
	maxPiece = 1 << 20
	// window is the number of requests of one call in flight.
	window = 8
)

// piece is one request of a read or write.
type piece struct {
	p     *pending
	at, n int // the bytes of the caller's memory
}

// transfer is a read or write in progress. It belongs to the calling goroutine.
type transfer struct {
	f    *File
	ctx  context.Context
	p    []byte
	off  int64
	most int // bytes in a piece
	// request returns the request for n bytes from byte at of p.
	request func(at, n int) request
	// done takes the response of a piece and returns how many of its bytes are done.
	done func(x piece, r *response) (int, error)
	// whole transfers wait for the pieces in flight after one is refused, since the server
	// may still execute them.
	whole bool

	queue []piece
	next  int // the first byte without a piece
}

// run sends pieces and waits for them, in order. It returns the number of done bytes from
// the start; fewer than all only with an error.
func (x *transfer) run() (n int, err error) {
	var room [window]piece
	x.queue = room[:0]
	defer x.abandon()
	for n < len(x.p) {
		if err := x.fill(); err != nil {
			return n, x.sent(err)
		}
		one := x.queue[0]
		copy(x.queue, x.queue[1:])
		x.queue = x.queue[:len(x.queue)-1]
		got, err := x.outcome(one)
		n += got
		if err != nil {
			return n, x.drain(x.sent(err))
		}
	}
	return n, nil
}

// sent returns err as the error of the whole transfer: pieces in flight have been sent, and the error
// may be of another piece.
func (x *transfer) sent(err error) error {
	if len(x.queue) > 0 && Unsent(err) {
		return x.f.t.s.conn.end.cause()
	}
	return err
}

// outcome waits for one piece.
func (x *transfer) outcome(one piece) (int, error) {
	c := x.f.t.s.conn
	r, err := c.result(x.ctx, one.p)
	if again, failed := c.renewed(x.ctx, one.p, err); again {
		r, err = c.exchange(x.ctx, x.request(one.at, one.n))
	} else {
		err = failed
	}
	if err != nil {
		return 0, err
	}
	defer c.free(r)
	return x.done(one, r)
}

// drain waits for the pieces in flight after the server has refused a piece, and returns
// why. If the outcome of another piece is unknown, drain returns the error of that piece.
// If why is an unknown outcome, drain does not wait.
func (x *transfer) drain(why error) error {
	if !x.whole || !Refused(why) {
		return why
	}
	c := x.f.t.s.conn
	for len(x.queue) > 0 {
		one := x.queue[0]
		x.queue = x.queue[1:]
		r, err := c.wait(x.ctx, one.p)
		if err != nil {
			return fmt.Errorf("%w, after %v", err, why) //nolint:errorlint // the refused piece is over, the write is not
		}
		c.free(r)
	}
	return why
}

// Refused reports whether an error of WriteAt is a refusal of the server: it has not executed
// all of the write, and no part of it takes effect later. After any other error the outcome
// is unknown.
func Refused(err error) bool {
	var refused ntstatus.Status
	var loggedOff loggedOffError
	return errors.As(err, &refused) && !errors.Is(err, ErrProtocol) || errors.As(err, &loggedOff) || errors.Is(err, io.ErrShortWrite)
}

// fill sends pieces while the window and the credits allow it. At least one is in flight
// when it returns without an error.
func (x *transfer) fill() error {
	c := x.f.t.s.conn
	for x.next < len(x.p) && len(x.queue) < window {
		n := min(len(x.p)-x.next, x.most)
		want := c.agreed.charge(n)
		got, err := want, error(nil)
		if len(x.queue) > 0 {
			if !c.credits.takeNow(want) {
				return nil
			}
		} else if got, err = c.credits.take(x.ctx, 1, want); err != nil {
			return unsent(err)
		}
		if got < want {
			n = min(n, got*smbwire.CreditUnit)
		}
		list, err := c.sendTaken(x.ctx, []request{x.request(x.next, n)})
		if err != nil {
			return err
		}
		x.queue = append(x.queue, piece{list[0], x.next, n})
		x.next += n
	}
	return nil
}

// abandon abandons the pieces in flight.
func (x *transfer) abandon() {
	for _, one := range x.queue {
		x.f.t.s.conn.abandon(one.p, true)
	}
}

// check refuses a range that has no request.
func (f *File) check(n int, off int64) error {
	switch {
	case f.closed.Load():
		return ntstatus.FileClosed
	case off < 0 || off+int64(n) < off:
		return ntstatus.InvalidParameter
	}
	return nil
}

// ReadAt fills p from byte off. It returns n < len(p) only with an error: io.EOF where the
// file ends. p is not used any more when it returns. A response that is shorter than its
// request means the end of the file.
//
// Source: [MS-SMB2 3.2.4.6], [MS-SMB2 3.2.5.11]
func (f *File) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if err := f.check(len(p), off); err != nil {
		return 0, err
	}
	x := transfer{f: f, ctx: ctx, p: p, off: off, most: min(maxPiece, f.t.s.neg.maxRead)}
	x.request = func(at, n int) request {
		return request{command: smbwire.CommandRead, treeID: f.t.id, payload: n, body: &smbwire.ReadRequest{
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
	return n, timely(err)
}

// WriteAt writes p at byte off. It returns n < len(p) only with an error; bytes behind the
// first n may have been written too. p is not used any more when it returns. After an error
// for which Refused is false, such as the end of ctx, the server may still be writing: see
// Settle.
//
// Source: [MS-SMB2 3.2.4.7], [MS-SMB2 3.2.5.12]
func (f *File) WriteAt(ctx context.Context, p []byte, off int64) (int, error) {
	if err := f.check(len(p), off); err != nil {
		return 0, err
	}
	x := transfer{f: f, ctx: ctx, p: p, off: off, most: min(maxPiece, f.t.s.neg.maxWrite), whole: true}
	x.request = func(at, n int) request {
		return request{command: smbwire.CommandWrite, treeID: f.t.id, payload: n, changes: f, body: &smbwire.WriteRequest{
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
	return n, timely(err)
}
