package lwio

import (
	"context"
	"io"
	"sync/atomic"

	"lwio/internal/epochs"
	"lwio/internal/wire"
	"lwio/rdma"
)

// op is an operation of a batch, or a part of a write. One request of it is in flight at a
// time; a read that is longer than a request goes on with the next, and a write is cut into
// parts. It is the batch's goroutine's, but from when it was sent until it is among those
// that came back.
type op struct {
	b     *Batch
	f     *File
	p     []byte
	size  int // bytes: those of p, unless that is a page to be written over and over
	off   int64
	tag   uint64
	write bool
	same  bool // p is a page
	done  int  // bytes

	s     *slot
	life  uint64            // the generation of s
	leg   *leg              // of s
	mr    rdma.MemoryRegion // made for it
	to    *lease            // of buf
	buf   *Buffer           // that p is part of, or nil
	at    int               // where
	on    *conn             // of mr and to
	fid   uint16
	n     int           // bytes of the request
	epoch *epochs.Epoch // of a write, from the first request to the last
	moved int           // bytes over RDMA
	used  bool          // RDMA was

	of *op // that it is a part of, or nil
	whole

	owed   *owedOp // of a write: the request was sent, on a connection that is gone
	losses int     // connections that broke under it

	late   atomic.Bool // its time was up: it came back, or is about to, and its slot is not free
	next   *op         // that came back before
	ios    wire.IOStatusBlock
	failed error // instead of ios
}

// joins reports whether o can be sent on cn without waiting for anything but a credit: as
// long as the caller uses the connection, nothing takes its place.
func (o *op) joins(ctx context.Context, cn *conn) bool {
	if o.owed != nil || o.size == 0 || !o.fits(cn) || o.b.c.haunted() || o.f.check(ctx, o.off, o.size) != nil {
		return false
	}
	if o.on != nil && o.on != cn && !o.on.isDown() {
		return false // it goes on where it is registered
	}
	next, fid := o.f.laneNow(cn.rail)
	o.fid = fid
	return next == cn
}

// fits reports whether o can be sent on cn: not every server repeats pages. What was sent
// before is sent again, or is uncertain.
func (o *op) fits(cn *conn) bool { return !o.same || cn.peer.maxSame > 0 || o.owed != nil }

// atOnce does the rest of o without RDMA, and without that the batch goes on meanwhile.
func (o *op) atOnce(ctx context.Context) error {
	if o.size == 0 {
		return nil
	}
	if o.same {
		n, err := o.f.writeCopies(ctx, o.p, o.off+int64(o.done), int64(o.size-o.done))
		o.done += int(n)
		return err
	}
	do := o.f.readSMB
	if o.write {
		do = o.f.writeSMB
	}
	n, err := do(ctx, o.p[o.done:], o.off+int64(o.done), o.buf)
	o.done += n
	return err
}

// sendOn sends queued operations on a leg, with one post for all, and returns how many it
// took from the queue, parts too: also those that could not be sent, and are over. With
// several rails it ends where it is the turn of another.
func (b *Batch) sendOn(ctx context.Context, l *leg, block bool) (int, error) {
	cn := l.conn
	if cn.enter() != nil {
		return 0, nil
	}
	defer cn.leave()
	b.flying = b.flying[:0]
	var taken someSlots
	took, starved := 0, 0
	for first := true; b.queued < len(b.queue); first = false {
		o := b.queue[b.queued]
		if !first && (!o.joins(ctx, cn) || len(b.legs) > 1 && o.on != cn && b.deal <= 0) {
			break
		}
		if taken.members == 0 {
			taken = cn.free.takeSome(b.requests(cn, slotsAtOnce))
		}
		s := cn.free.next(&taken)
		if s == nil && block && first {
			var err error
			if s, err = cn.acquire(ctx, true); err != nil && !isLost(err) {
				return 0, err
			}
		}
		if s == nil {
			starved = b.requests(cn, maxCredits)
			break
		}
		o = b.dequeue(cn)
		if err := o.prepare(ctx, cn, s); err != nil {
			s.again = false
			cn.release(s)
			if isLost(err) || ctx.Err() != nil {
				b.putBack(o)
				break
			}
			took++
			if o.owed != nil { // it was sent before, and may have been done
				err = o.owed.uncertain(err)
			}
			b.finish(o, err)
			continue
		}
		took++
		o.leg = l
		if o.done == 0 {
			b.deal -= o.size
		}
		b.flying = append(b.flying, o)
	}
	cn.unused(taken)
	b.launch(l, starved)
	return took, nil
}

// postAtOnce is how many operations are posted together where that costs no system call,
// so that the server begins while others are made ready.
const postAtOnce = 8

// launch posts what is prepared on a leg, while so many more wait for a credit there. The
// caller uses the connection.
func (b *Batch) launch(l *leg, starved int) {
	cn := l.conn
	cn.wanting.Add(int64(len(b.flying)))
	b.sent += len(b.flying)
	l.sent += len(b.flying)
	l.starve(starved)
	at, pending := cn.clock(), int(cn.wanting.Load())
	var h wire.Header
	var data payload
	early := cn.info.Caps.Has(rdma.CapDirectAlloc)
	cn.sendMu.Lock()
	for i, o := range b.flying {
		if early && i > 0 && i%postAtOnce == 0 {
			cn.startPosting()
			cn.sendMu.Lock()
		}
		o.message(&h, &data)
		h.SetPending(pending)
		cn.queueLocked(o.s, &h, &data, slotPending, at)
	}
	cn.startPosting()
}

// prepare gets o's memory ready and gives it the slot s.
func (o *op) prepare(ctx context.Context, cn *conn, s *slot) (err error) {
	limit, small, access := cn.peer.maxRead, cn.cfg.smallRead, rdma.AccessRemoteWrite
	s.kind = kindRead
	if o.write {
		limit, small, access = cn.peer.maxWrite, copyWrite, 0
		s.kind = kindWrite
	}
	if o.same {
		limit = cn.peer.maxSame
	}
	if o.on != cn {
		o.takeBack()
		o.on = cn
	}
	if err := o.buf.gone(); err != nil {
		return err
	}
	if o.to == nil && o.buf != nil {
		o.to, o.at, err = cn.lease(ctx, o.p, o.buf)
	}
	if err == nil && o.to == nil && o.mr == nil && !o.same && len(o.p) > small {
		o.mr, err = cn.adapter.RegisterMemory(ctx, o.p, access)
	}
	if err != nil {
		return err
	}
	o.n = min(o.size-o.done, limit)
	if o.write {
		if o.epoch == nil {
			o.epoch = o.f.writes.Begin()
		}
		s.epoch = o.f.writes.Begin()
	}
	if !o.write || !copies(len(o.p), o.to) {
		s.lent = o.to
	}
	s.want, s.own, s.op = uint32(o.n), false, o
	if o.owed != nil {
		if err := o.repeat(cn, s); err != nil {
			return err
		}
	}
	o.s, o.life, o.failed, o.used = s, s.generation(), nil, true
	if o.late.Load() {
		o.late.Store(false)
	}
	return nil
}

// message makes h and data the next request of o. They are the caller's, and not made
// anew for each: what is put together and copied at once costs more than all the rest.
func (o *op) message(h *wire.Header, data *payload) {
	*data = payload{}
	if o.same {
		*h, data.copied = sameHeader(o.fid, o.off+int64(o.done), o.n), o.p[:min(o.n, len(o.p))]
		return
	}
	mr, at := o.mr, o.done
	if o.to != nil {
		mr, at = o.to.mr, o.at+o.done
	}
	if o.write {
		*h = wire.NewWrite(o.fid, uint64(o.off+int64(o.done)), uint32(o.n))
		if mr == nil || copies(len(o.p), o.to) {
			data.copied = o.p[o.done:][:o.n]
		} else {
			data.region, data.offset, data.length = mr, at, o.n
		}
		return
	}
	if mr == nil { // through the bounce buffer
		mr, at = o.on.landMR, o.s.landAt
	}
	to := mr.RemoteAddr()
	*h = wire.NewRead(o.fid, uint64(o.off+int64(o.done)),
		wire.RDMARegion{DataVa: to.Addr + uint64(at), DataMh: uint32(to.Token), Length: uint32(o.n)})
}

// answer notes what became of the request.
func (o *op) answer(ios wire.IOStatusBlock, err error) {
	o.ios, o.failed = ios, err
	if o.epoch != nil && !o.goesOn() {
		o.epoch.End()
		o.epoch = nil
	}
}

// goesOn reports whether a write that was answered has another request to send.
func (o *op) goesOn() bool {
	return o.failed == nil && o.ios.Status == 0 && int(o.ios.Information) == o.n && o.done+o.n < o.size
}

// land copies what a small read brought, if o is one, before its slot is used again.
func (o *op) land(s *slot, ios wire.IOStatusBlock) {
	if !o.write && o.mr == nil && o.to == nil && ios.Status == 0 {
		copy(o.p[o.done:][:o.n], s.bounce[:min(int(ios.Information), o.n)])
	}
}

// reap takes those that came back: each is over, or goes on with its next request.
func (b *Batch) reap() {
	list := b.answered.Swap(nil)
	var oldest *op
	for list != nil {
		list, list.next, oldest = list.next, oldest, list
	}
	n, at, landed := int64(0), (*leg)(nil), 0
	for o := oldest; o != nil; n++ {
		next := o.next
		o.next = nil
		if at != o.leg {
			at.landed(landed)
			at, landed = o.leg, 0
		}
		o.s = nil
		landed++
		if err := o.take(); err != nil || o.done == o.size {
			b.finish(o, err)
		} else {
			b.push(o)
		}
		o = next
	}
	if n > 0 {
		at.landed(landed)
		b.sent -= int(n)
		b.count.Add(-n)
	}
}

// returned counts o as not in flight.
func (b *Batch) returned(o *op) {
	o.s = nil
	b.sent--
	o.leg.landed(1)
}

// take reads the answer to o's request.
func (o *op) take() error {
	o.owed = nil
	switch {
	case o.failed != nil && o.write:
		return &uncertainError{o.failed}
	case o.failed != nil:
		return o.failed
	case !o.write:
		n, err := readResult(o.ios)
		o.done += n
		o.moved += n
		return err
	case o.ios.Status != 0:
		return statusError(o.ios.Status)
	}
	o.done += int(o.ios.Information)
	o.moved += int(o.ios.Information)
	if int(o.ios.Information) < o.n {
		return io.ErrShortWrite
	}
	return nil
}

// finish ends o.
func (b *Batch) finish(o *op, err error) {
	if o.mr != nil {
		o.mr.Close()
	}
	if o.epoch != nil {
		o.epoch.End()
	}
	if o.of != nil {
		b.ended(o, err)
		return
	}
	name := "read"
	if o.write {
		name = "write"
	}
	switch {
	case !o.used || o.moved == 0 && err != nil:
	case o.write:
		b.c.overRDMA.wrote(o.moved)
	default:
		b.reads++
		b.readBytes += uint64(o.moved)
	}
	if err != nil {
		err = o.f.failed(name, err)
	}
	b.out = append(b.out, Completion{o.tag, o.done, err})
	*o = op{b: b}
	b.idle = append(b.idle, o)
}
