package lwio

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"math"

	"lwio/internal/epochs"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
)

// maxPieces is how many requests one call keeps in flight.
const maxPieces = 32

// piece is a part of a read or write that is in flight: n bytes from byte at of
// the caller's memory.
type piece struct {
	s     *slot
	at, n int
}

// pieces is a queue of pieces in the order of the file.
type pieces struct {
	ring        [maxPieces]piece
	head, count int
}

func (q *pieces) push(p piece) {
	q.ring[(q.head+q.count)%maxPieces] = p
	q.count++
}

func (q *pieces) pop() piece {
	p := q.ring[q.head]
	q.head = (q.head + 1) % maxPieces
	q.count--
	return p
}

// unpop takes back the last pop.
func (q *pieces) unpop() {
	q.head = (q.head + maxPieces - 1) % maxPieces
	q.count++
}

// endOfFile is the answer to a read at or after the end.
const endOfFile = uint32(ntstatus.EndOfFile)

// readAt reads into p from offset off. It returns n < len(p) only with an error:
// io.EOF, the status that the server answered, or why there was no answer. When it
// returns, no byte of p changes any more, unless p is part of a Buffer that is in
// doubt then. of is that Buffer, once it is known.
//
// Source: [LWIO §Read], [OP-60], [OP-91], [OP-92a], [OP-111]
func (c *conn) readAt(ctx context.Context, fid uint16, p []byte, off int64, of **Buffer) (int, error) {
	if err := c.enter(); err != nil {
		return 0, err
	}
	defer c.leave()
	b, at, err := c.lease(ctx, p, *of)
	switch {
	case err != nil:
		return 0, err
	case b == nil && len(p) <= c.cfg.smallRead:
		return c.readWhole(ctx, reading{fid: fid, off: off, total: len(p)}, p)
	}
	r := reading{c: c, fid: fid, off: off, total: len(p), lent: b}
	if b != nil {
		*of = b.b
		r.to = b.mr.RemoteAddr()
		r.to.Addr += uint64(at)
	} else {
		mr, err := c.adapter.RegisterMemory(ctx, p, rdma.AccessRemoteWrite)
		if err != nil {
			return 0, err
		}
		defer mr.Close()
		r.to = mr.RemoteAddr()
	}
	if r.total <= c.peer.maxRead {
		return c.readWhole(ctx, r, nil)
	}
	return (&splitRead{reading: r}).run(ctx)
}

// readWhole reads with one request, and with another from where a short answer ended.
// If p is not nil the data goes to the slot's bounce buffer, and from there to p.
func (c *conn) readWhole(ctx context.Context, r reading, p []byte) (int, error) {
	lent := c.landMR.RemoteAddr()
	for done := 0; ; {
		s, err := c.acquire(ctx, true)
		if err != nil {
			return done, err
		}
		if err := r.lent.gone(); err != nil {
			c.release(s)
			return done, err
		}
		to := rdma.RemoteAddr{Addr: r.to.Addr + uint64(done), Token: r.to.Token}
		if p != nil {
			to = rdma.RemoteAddr{Addr: lent.Addr + uint64(s.landAt), Token: lent.Token}
		}
		s.lent = r.lent
		if err := c.postRead(s, r.fid, r.off+int64(done), r.total-done, to); err != nil {
			return done, err
		}
		ios, err := c.wait(ctx, s)
		if err != nil {
			return done, err
		}
		n, err := readResult(ios)
		if p != nil {
			copy(p[done:], s.bounce[:n])
		}
		c.release(s)
		if done += n; err != nil || done == r.total {
			return done, err
		}
	}
}

// postRead sends a READ of n bytes that lands at to.
func (c *conn) postRead(s *slot, fid uint16, off int64, n int, to rdma.RemoteAddr) error {
	s.kind, s.want = kindRead, uint32(n)
	h := wire.NewRead(fid, uint64(off), wire.RDMARegion{DataVa: to.Addr, DataMh: uint32(to.Token), Length: uint32(n)})
	return c.post(s, &h, payload{})
}

// readResult is what an answer to a READ says.
func readResult(ios wire.IOStatusBlock) (int, error) {
	switch ios.Status {
	case 0:
		if ios.Information == 0 {
			return 0, protocolError("the server read nothing and does not say why")
		}
		return int(ios.Information), nil
	case endOfFile:
		return 0, io.EOF
	}
	return 0, statusError(ios.Status)
}

// reading is a read into registered memory.
type reading struct {
	c     *conn
	fid   uint16
	off   int64
	total int
	to    rdma.RemoteAddr
	lent  *lease // that it goes to, or nil
}

// splitRead is one that takes several requests.
type splitRead struct {
	reading
	next int // bytes asked for
	q    pieces
}

// run keeps requests in flight until all is read or one fails. It never leaves an
// answer outstanding unless ctx, or the connection, has ended.
func (r *splitRead) run(ctx context.Context) (done int, err error) {
	for done < r.total && err == nil {
		if err = r.fill(ctx); err != nil {
			break
		}
		p := r.q.pop()
		var ios wire.IOStatusBlock
		if ios, err = r.c.wait(ctx, p.s); err != nil {
			break
		}
		r.c.release(p.s)
		var n int
		n, err = readResult(ios)
		done += n
		if err == nil && n < p.n {
			// A short answer in the middle: ask again from there.
			if err = r.drain(ctx); err == nil {
				r.next = done
			}
		}
	}
	if e := r.drain(ctx); err == nil {
		err = e
	}
	return done, err
}

// fill sends as many requests as there are credits for, and at least one.
func (r *splitRead) fill(ctx context.Context) error {
	for r.next < r.total && r.q.count < maxPieces {
		s, err := r.c.acquire(ctx, r.q.count == 0)
		if s == nil || err != nil {
			return err
		}
		if err := r.lent.gone(); err != nil {
			r.c.release(s)
			return err
		}
		n := min(r.total-r.next, r.c.peer.maxRead)
		to := rdma.RemoteAddr{Addr: r.to.Addr + uint64(r.next), Token: r.to.Token}
		s.lent = r.lent
		if err := r.c.postRead(s, r.fid, r.off+int64(r.next), n, to); err != nil {
			return err
		}
		r.q.push(piece{s, r.next, n})
		r.next += n
	}
	return nil
}

// drain waits for what is in flight, so that nothing lands in memory that is about
// to be taken back.
func (r *splitRead) drain(ctx context.Context) (err error) {
	for r.q.count > 0 {
		p := r.q.pop()
		if _, e := r.c.wait(ctx, p.s); e != nil {
			err = e
			continue
		}
		r.c.release(p.s)
	}
	return err
}

// writeAt writes p at offset off and returns how many bytes from the beginning of
// p the server has for certain. An error that is ErrUncertain says that more may
// have been written. When it returns, no byte of p is read any more, unless p is part
// of a Buffer that is in doubt then. of is as for readAt.
//
// Source: [LWIO §Write], [OP-61], [OP-61b], [OP-112], [OP-113]
//
// If the connection ends, the error is that, and what was sent and not answered is the
// debt.
func (c *conn) writeAt(ctx context.Context, fid uint16, p []byte, off int64, of **Buffer, order *epochs.Epochs) (int, *debt, error) {
	if err := c.enter(); err != nil {
		return 0, nil, err
	}
	defer c.leave()
	w := writing{c: c, fid: fid, off: off, p: p, total: len(p), order: order}
	b, at, err := c.lease(ctx, p, *of)
	if b != nil {
		*of, w.of = b.b, b.b
	}
	switch {
	case err != nil:
		return 0, nil, err
	case copies(len(p), b):
	case b != nil:
		w.mr, w.at, w.lent = b.mr, at, b
	default:
		mr, err := c.adapter.RegisterMemory(ctx, p, 0)
		if err != nil {
			return 0, nil, err
		}
		defer mr.Close()
		w.mr = mr
	}
	return w.run(ctx)
}

// copies tells whether a write of n bytes is copied; from is the Buffer that they are part
// of, or nil. Where the server reaches a Buffer nothing of what is lent is copied but by the
// file system, and elsewhere to gather is no dearer than to copy.
func copies(n int, from *lease) bool {
	if from != nil {
		return n <= copyBuffer
	}
	return n <= copyWrite
}

// writing is a write, split into requests.
type writing struct {
	c     *conn
	fid   uint16
	off   int64
	total int
	p     []byte
	vec   *lender           // instead of p, or nil
	same  []byte            // a page that is written over and over, instead of p, or nil
	segs  [][]byte          // of vec
	where cursor            // in it
	mr    rdma.MemoryRegion // nil: the data is copied
	at    int               // where p begins in it
	lent  *lease            // that the data is gathered from, or nil
	of    *Buffer           // that it is part of, or nil
	order *epochs.Epochs
	next  int // bytes sent
	q     pieces
}

func (w *writing) run(ctx context.Context) (done int, owed *debt, err error) {
	for done < w.total && err == nil {
		if err = w.fill(ctx); err != nil {
			break
		}
		var n int
		n, err = w.finish(ctx)
		done += n
	}
	if err != nil && w.q.count > 0 && isLost(err) {
		return done, w.owe(), err
	}
	for w.q.count > 0 {
		// What comes after a failure may have been written too, but is not counted.
		_, e := w.finish(ctx)
		if isLost(e) && !isUncertain(e) {
			w.c.rail.orphan()
			return done, nil, &uncertainError{err}
		}
		if e != nil && isUncertain(e) && !isUncertain(err) {
			err = &uncertainError{err}
		}
	}
	return done, nil, err
}

// fill sends as many requests as there are credits for, and at least one if
// nothing is in flight.
func (w *writing) fill(ctx context.Context) error {
	for w.next < w.total && w.q.count < maxPieces {
		s, err := w.c.acquire(ctx, w.q.count == 0)
		if s == nil || err != nil {
			return err
		}
		if err := w.of.gone(); err != nil {
			w.c.release(s)
			return err
		}
		n := min(w.total-w.next, w.c.peer.maxWrite)
		data := payload{region: w.mr, offset: w.at + w.next, length: n}
		h := wire.NewWrite(w.fid, uint64(w.off+int64(w.next)), uint32(n))
		switch {
		case w.vec != nil:
			data = payload{}
			data.gather, n = w.vec.gather(s.sges[1:1:len(s.sges)], &w.where, w.c.peer.maxWrite)
			h = vecHeader(w.fid, w.off+int64(w.next), n)
		case w.same != nil:
			n = min(w.total-w.next, w.c.peer.maxSame)
			data, h = payload{copied: w.same[:min(n, len(w.same))]}, sameHeader(w.fid, w.off+int64(w.next), n)
		case w.mr == nil:
			data = payload{copied: w.p[w.next : w.next+n]}
		}
		s.kind, s.want, s.epoch, s.lent = kindWrite, uint32(n), w.order.Begin(), w.lent
		if err := w.c.post(s, &h, data); err != nil {
			return err
		}
		w.q.push(piece{s, w.next, n})
		w.next += n
	}
	return nil
}

// finish waits for the oldest request and returns how much of it was written. If the
// connection has ended, the request stays in the queue.
func (w *writing) finish(ctx context.Context) (int, error) {
	p := w.q.pop()
	ios, err := w.c.wait(ctx, p.s)
	switch {
	case err != nil && isLost(err):
		w.q.unpop()
		return 0, err
	case err != nil:
		return 0, &uncertainError{err}
	}
	w.c.release(p.s)
	switch {
	case ios.Status != 0:
		return 0, statusError(ios.Status)
	case int(ios.Information) < p.n:
		return int(ios.Information), io.ErrShortWrite
	}
	return p.n, nil
}

// errRange is an offset or a size that no file has.
var errRange = fmt.Errorf("%w: no file has such a range", fs.ErrInvalid)

// checkRange refuses offsets that no file has. [OP-92c]
func checkRange(off int64, n int) error {
	if off < 0 || off > math.MaxInt64-int64(n) {
		return errRange
	}
	return nil
}
