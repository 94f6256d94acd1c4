package lwio

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"

	"lwio/internal/epochs"
	"lwio/internal/segments"
	"lwio/internal/wire"
)

// maxBehind is how many messages ago a write may have been sent for the first time that
// is sent again: its Sequence has 16 bits. [OP-112]
const maxBehind = 1<<15 - 1

// maxFarBehind is that for writes of connections before the last one: of those the
// server forgets the oldest outcomes when there are many. [OP-112]
const maxFarBehind = 512

// Why writes cannot be sent again.
var (
	errForgotten = errors.New("the server does not know what became of the writes")
	errTooOld    = errors.New("too many messages ago")
	errDifferent = errors.New("the server takes other sizes now")
)

// debt is what a call has sent, without knowing what became of it, when its connection
// broke.
//
// Source: [OP-112]
type debt struct {
	rail    *rail
	lineage uint64 // of the connections that know
	parts   []owedWrite
	of      *Buffer // that the data is part of, or nil
}

// owedWrite is one message of it.
type owedWrite struct {
	number uint64
	off    int64 // in the file
	n      int
	data   [][]byte
	same   []byte        // instead of data: a page that is written over and over
	epoch  *epochs.Epoch // the write is not over
	s      *slot         // it is in flight again
	known  bool          // what became of it
	ios    wire.IOStatusBlock
}

// owe makes a debt of the requests in flight on a connection that is down. Their epochs
// go on in it. The caller holds up the teardown.
func (w *writing) owe() *debt {
	d := &debt{rail: w.c.rail, lineage: w.c.lineage, of: w.of}
	for w.q.count > 0 {
		p := w.q.pop()
		o := owedWrite{number: p.s.number, off: w.off + int64(p.at), n: p.n, data: w.dataOf(p), same: w.same, s: p.s}
		o.takeBack(w.c)
		d.parts = append(d.parts, o)
	}
	d.rail.owe()
	return d
}

// dataOf is what a request carries.
func (w *writing) dataOf(p piece) [][]byte {
	switch {
	case w.same != nil:
		return nil
	case w.vec == nil:
		return [][]byte{w.p[p.at : p.at+p.n]}
	}
	return segments.Part(w.segs, p.at, p.n)
}

// takeBack takes the write back from its slot on a connection that is down, unless the
// answer is there.
func (o *owedWrite) takeBack(c *conn) {
	s := o.s
	o.s = nil
	for {
		w := s.word.Load()
		switch st := slotState(w & stateMask); st {
		case slotDone:
			o.known, o.ios = true, s.result
			c.release(s)
			return
		case slotPending, slotExpired:
			if !s.word.CompareAndSwap(w, w&^stateMask|uint64(slotSettling)) {
				continue
			}
			o.epoch, s.epoch = s.epoch, nil
			s.set(slotDead)
			return
		case slotSettling:
			runtime.Gosched()
		default: // the answer came too late to be kept
			return
		}
	}
}

// repay finds out what became of the writes of a debt, by sending them again on the
// connection that takes the place of theirs, under their old numbers: there the server
// does only what it had not done. It returns how many bytes are written for certain, with
// the done ones that were before the debt. An error that is ErrUncertain says that more
// may have been. cause is what broke the connection.
//
// Source: [OP-112]
func (f *File) repay(ctx context.Context, done int, d *debt, cause error) (int, error) {
	defer d.close()
	if err := d.of.hold(); err != nil {
		return d.result(done, reasons{cause, err})
	}
	defer d.of.letGo()
	ctx, cancel := f.c.cfg.bounded(ctx)
	defer cancel()
	for range maxLosses {
		if d.settled() {
			break
		}
		cn, fid, err := f.laneOn(ctx, d.rail, true)
		switch {
		case err != nil:
			return d.result(done, reasons{cause, err})
		case cn == nil:
			return d.result(done, cause)
		case cn.lineage != d.lineage:
			return d.result(done, reasons{cause, errForgotten})
		}
		if err := cn.repay(ctx, fid, d); err != nil && !isLost(err) {
			return d.result(done, reasons{cause, err})
		}
	}
	return d.result(done, cause)
}

// settled tells whether everything is known.
func (d *debt) settled() bool {
	for i := range d.parts {
		if !d.parts[i].known {
			return false
		}
	}
	return true
}

// result is how many bytes are written for certain, and the error of the call; cause is
// why nobody knows about the rest.
func (d *debt) result(done int, cause error) (n int, err error) {
	if !d.settled() {
		d.rail.orphan()
	}
	for i := range d.parts {
		o := &d.parts[i]
		switch {
		case !o.known && err == nil:
			err = &uncertainError{cause}
		case !o.known:
			if !isUncertain(err) {
				err = &uncertainError{err}
			}
		case err != nil: // not counted
		case o.ios.Status != 0:
			err = statusError(o.ios.Status)
		default:
			if done += min(int(o.ios.Information), o.n); int(o.ios.Information) < o.n {
				err = io.ErrShortWrite
			}
		}
	}
	return done, err
}

// close ends the debt, paid or not.
func (d *debt) close() {
	for i := range d.parts {
		if e := d.parts[i].epoch; e != nil {
			e.End()
		}
	}
	d.rail.settled()
}

// repay sends the writes of a debt again, as many at a time as there are credits, and
// waits for what became of them. If the connection ends, they are owed as before.
//
// Source: [OP-112]
func (c *conn) repay(ctx context.Context, fid uint16, d *debt) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	l := lender{c: c}
	defer l.close()
	if err := l.lend(ctx, d.gathered(), 0); err != nil {
		return err
	}
	if err := d.of.gone(); err != nil { // before anything is sent
		return err
	}
	var at cursor
	next, oldest := 0, 0
	for ; oldest < len(d.parts); oldest++ {
		for ; next < len(d.parts); next++ {
			o := &d.parts[next]
			if o.known {
				continue
			}
			s, err := c.acquire(ctx, next == oldest)
			if s == nil && err == nil {
				break
			}
			if err == nil {
				err = c.sendAgain(s, fid, o, &l, &at)
			}
			if err != nil {
				return c.unpaid(d, err)
			}
		}
		o := &d.parts[oldest]
		if o.known {
			continue
		}
		ios, err := c.wait(ctx, o.s)
		if err != nil {
			if !isLost(err) {
				o.s = nil // it is not ours any more
			}
			return c.unpaid(d, err)
		}
		c.release(o.s)
		o.s, o.known, o.ios = nil, true, ios
	}
	return nil
}

// gathered are the segments of the messages that are not copied.
func (d *debt) gathered() (segs [][]byte) {
	for i := range d.parts {
		if o := &d.parts[i]; !o.known && o.n > copyWrite && o.same == nil {
			segs = append(segs, o.data...)
		}
	}
	return segs
}

// sendAgain sends a write in slot s that was sent before; at is where its data is in l,
// unless it is copied. After an error the slot is not the caller's any more.
func (c *conn) sendAgain(s *slot, fid uint16, o *owedWrite, l *lender, at *cursor) error {
	h := wire.NewWrite(fid, uint64(o.off), uint32(o.n))
	var data payload
	n, most := o.n, c.peer.maxWrite
	switch {
	case o.same != nil:
		h, most = sameHeader(fid, o.off, o.n), c.peer.maxSame
		data.copied = o.same[:min(o.n, protocolPage)]
	case o.n <= copyWrite:
		data.copied = slices.Concat(o.data...)
	case l.buffer.gone() != nil:
		c.release(s)
		return errBufferClosed
	default:
		data.gather, n = l.gather(s.sges[1:1:len(s.sges)], at, o.n)
		s.lent = l.buffer
	}
	if n < o.n || n > most {
		c.release(s)
		return errDifferent
	}
	if c.tooOld(o.number) {
		c.release(s)
		return errTooOld
	}
	s.kind, s.want, s.number, s.again = kindWrite, uint32(n), o.number, true
	s.epoch, o.epoch = o.epoch, nil
	if err := c.post(s, &h, data); err != nil {
		o.epoch, s.epoch = s.epoch, nil
		return err
	}
	o.s = s
	c.rail.c.writesAgain.Add(1)
	return nil
}

// unpaid ends the sending for a reason, with what is in flight: the end of the
// connection, or of the caller's patience.
func (c *conn) unpaid(d *debt, err error) error {
	for i := range d.parts {
		o := &d.parts[i]
		switch {
		case o.s == nil:
		case c.isDown():
			o.takeBack(c)
		default:
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			if ios, e := c.wait(ended, o.s); e == nil {
				o.known, o.ios = true, ios
				c.release(o.s)
			}
			o.s = nil
		}
	}
	return err
}

// tooOld tells whether a message was sent too long ago to be sent again. That leaves
// room enough for those that others may send meanwhile.
func (c *conn) tooOld(number uint64) bool {
	behind := c.nextNumber() - number
	return behind > maxBehind || number < c.recent && behind > maxFarBehind
}

// nextNumber is the number of the next message.
func (c *conn) nextNumber() uint64 {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	return c.seq
}
