package fileio

import (
	"errors"
	"io"
	"slices"

	"lwio/internal/client/base"
	"lwio/internal/client/paths"
	"lwio/internal/client/rdmaconn"
	"lwio/internal/client/segments"
	"lwio/internal/ntstatus"
)

// An operation that takes several requests is sent in parts. Each part is an operation of its own, so
// all are in flight at once. The server joins writes of adjacent parts, and a large operation uses all
// connections. The queue cuts a part off when there is a credit for it.
//
// Source: [LWIO §Read], [LWIO §Write], [OP-60], [OP-61b]

// whole is the state of an operation that is sent in parts.
type whole struct {
	cut       int      // bytes that were cut off as parts
	parts     int      // that are not over
	stripe    int      // bytes of a part at most; 0 before the first is cut, or for no limit
	wrong     error    // of the part that ended at done
	uncertain bool     // the outcome of some part is unknown
	run       *pageRun // of a WriteSame, made when a part is sent as a plain write; all parts share it
}

// part returns the size of the next part of o on cn, or over SMB where cn is nil, in bytes. It
// is 0 for an operation that is sent as a whole.
func (o *operation) part(cn *rdmaconn.Conn) int {
	if o.isSmall(cn) || o.of != nil || o.unacked != nil || o.cut == 0 && (o.done > 0 || o.size == 0) {
		return 0
	}
	if o.cut == 0 {
		o.stripe = 0
		if cn != nil {
			o.stripe = o.q.c.Stripe(o.size)
			if o.stripe > 0 && o.page > 0 {
				o.stripe = max(o.stripe/o.page, 1) * o.page
			}
		}
	}
	n := o.size - o.cut
	switch {
	case cn != nil && (!o.same || cn.Limits.Same > 0):
		n = o.limit(cn, o.cut)
		if o.stripe > 0 {
			n = min(n, o.stripe)
		}
	case o.same:
		n = min(n, sameCopy)
	case o.segs != nil && o.write:
		n = min(n, gatherSize)
	case o.segs != nil:
		n = segments.Fit(o.segs, o.cut, 1, n)
	}
	if n == o.size {
		return 0
	}
	return n
}

// isSmall reports whether the size alone tells that o is sent as a whole on cn.
func (o *operation) isSmall(cn *rdmaconn.Conn) bool {
	if cn == nil || o.cut > 0 || o.same || o.segs != nil {
		return false
	}
	most := cn.Limits.Read
	if o.write {
		most = cn.Limits.Write
	}
	return o.size <= min(most, paths.MinStripe)
}

// dequeue removes the first operation of l, or cuts off its next part. The size of that part is given
// as operation.part returns it.
func (q *queue) dequeue(l *sendList, part int) *operation {
	if part > 0 {
		return q.cut(l, part)
	}
	o := l.first()
	l.pop()
	return o
}

// dequeueRest removes the first operation of l, or the uncut rest of it as one part.
func (q *queue) dequeueRest(l *sendList) *operation {
	o := l.first()
	if o.cut > 0 {
		return q.cut(l, o.size-o.cut)
	}
	l.pop()
	return o
}

// requests returns the number of requests that are queued for cn, at most that many. The size
// of the next part of the first operation is given.
func (q *queue) requests(cn *rdmaconn.Conn, part, most int) int {
	n := 0
	for i, o := range q.pending.waiting() {
		if n >= most {
			break
		}
		if i > 0 {
			part = o.part(cn)
		}
		n++
		if part > 0 {
			n += (o.size - o.cut - 1) / part
		}
	}
	return n
}

// cut cuts the next n bytes off the first operation of l. All parts of a write belong to the epoch
// of its first part, so a call that waits for one part waits for all.
//
// Source: [OP-115]
func (q *queue) cut(l *sendList, n int) *operation {
	o := l.first()
	var x *operation
	if last := len(q.spare) - 1; last >= 0 {
		x, q.spare = q.spare[last], q.spare[:last]
	} else {
		x = new(operation)
	}
	if o.cut == 0 {
		if o.write {
			o.epoch = o.f.writes.Begin()
		}
		q.wholes++
	}
	x.begin(q)
	x.f, x.arguments, x.of, x.busy, x.buf, x.fid, x.epoch = o.f, o.arguments, o, true, o.buf, o.fid, o.epoch
	x.size, x.off = n, o.off+int64(o.cut)
	switch {
	case o.same:
	case o.segs == nil:
		x.p = o.p[o.cut : o.cut+n]
	default:
		x.segs = segments.Part(o.segs, o.cut, n)
		if len(x.segs) == 1 && x.page == 0 && !x.write {
			x.p, x.segs = x.segs[0], nil
			x.buf = q.c.Buffers.Of(x.p)
		}
	}
	q.parts = append(q.parts, x)
	o.cut += n
	o.parts++
	if o.cut < o.size {
		if x.epoch != nil {
			x.epoch.More()
		}
	} else {
		o.epoch = nil // which passes to the last part
		l.pop()
	}
	return x
}

// ended ends a part. The last part ends its operation. Only the bytes before the first failure are
// certain to be read or written.
//
// Source: [OP-61b], [OP-112]
func (q *queue) ended(x *operation, err error) {
	o := x.of
	o.parts--
	o.moved += x.moved
	o.used = o.used || x.used
	o.smb.add(&x.smb)
	if err != nil {
		q.wentWrong(o, int(x.off-o.off)+x.done, err)
	}
	i := slices.Index(q.parts, x)
	q.parts = slices.Delete(q.parts, i, i+1)
	*x = operation{}
	q.spare = append(q.spare, x)
	if o.parts == 0 && o.cut == o.size {
		q.endWhole(o)
	}
}

// wentWrong notes that an operation in parts failed at byte at. Its uncut rest is not sent.
func (q *queue) wentWrong(o *operation, at int, err error) {
	o.uncertain = o.uncertain || base.IsUncertain(err)
	if o.wrong == nil || at < o.done {
		o.done, o.wrong = at, err
	}
	if o.cut == o.size {
		return
	}
	q.pending.remove(o)
	q.smb.pending.remove(o)
	if q.pending.empty() {
		q.flights.clearWaitingForCredit()
	}
	o.cut = o.size
	if o.epoch != nil {
		o.epoch.End()
		o.epoch = nil
	}
}

// endWhole ends an operation when all of its parts are over. If a write was given up after parts behind
// its end were written, its outcome is unknown.
func (q *queue) endWhole(o *operation) {
	q.wholes--
	err := o.wrong
	switch {
	case err == nil:
		o.done = o.size
	case !base.IsUncertain(err) && (o.uncertain || o.write && o.moved+o.smb.moved > o.done && !isRefusal(err)):
		err = base.Uncertain(err)
	}
	q.finish(o, err)
}

// live returns all operations and parts that are not over.
func (q *queue) live() []*operation {
	all := slices.Clone(q.parts)
	for i := range q.ops {
		if q.ops[i].busy {
			all = append(all, &q.ops[i])
		}
	}
	return all
}

// answersFor returns the least number of answers after which n operations can be over.
func (q *queue) answersFor(n int) int {
	if q.wholes == 0 {
		return n
	}
	least := 0
	for i := range q.ops {
		switch o := &q.ops[i]; {
		case o.InFlight() || o.smb.running:
			return n
		case o.parts > 0 && (least == 0 || o.parts < least):
			least = o.parts
		}
	}
	return n * max(least, 1)
}

// isRefusal reports whether err came in an answer of the server.
func isRefusal(err error) bool {
	var status ntstatus.Status
	return errors.Is(err, io.ErrShortWrite) || errors.As(err, &status)
}
