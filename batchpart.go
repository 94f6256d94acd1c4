package lwio

import "slices"

// A write that takes several requests is sent in parts, each an operation of its own, so that
// they are in flight at once: the server writes to the file together what goes on where
// the one before ended. There are as many parts at a time as there are credits.
//
// Source: [LWIO §Write], [OP-61b]

// whole is what the operation knows whose parts are sent.
type whole struct {
	cut   int   // bytes that were cut off as parts
	parts int   // that are not over
	wrong error // of the part that ended at done
	doubt bool  // what became of some part is uncertain
}

// inParts reports whether o is sent in parts on cn.
func (o *op) inParts(cn *conn) bool {
	return o.write && !o.same && o.of == nil && o.owed == nil && (o.cut > 0 || o.size > cn.peer.maxWrite)
}

// dequeue takes the next operation out of the queue, or cuts off the next part of it.
func (b *Batch) dequeue(cn *conn) *op {
	if o := b.queue[b.queued]; o.inParts(cn) {
		return b.cut(o, min(o.size-o.cut, cn.peer.maxWrite))
	}
	return b.dequeueRest()
}

// dequeueRest takes it out as far as it was not cut off.
func (b *Batch) dequeueRest() *op {
	o := b.queue[b.queued]
	if o.cut > 0 {
		return b.cut(o, o.size-o.cut)
	}
	b.queued++
	return o
}

// putBack queues what was taken out last before everything else.
func (b *Batch) putBack(o *op) {
	if b.queued > 0 {
		b.queued--
		b.queue[b.queued] = o
		return
	}
	b.queue = slices.Insert(b.queue, 0, o)
}

// requests is how many requests are queued for cn; from most on nobody needs to know.
func (b *Batch) requests(cn *conn, most int) int {
	n := 0
	for i := b.queued; i < len(b.queue) && n < most; i++ {
		if n++; b.queue[i].inParts(cn) {
			n += (b.queue[i].size - b.queue[i].cut - 1) / cn.peer.maxWrite
		}
	}
	return n
}

// cut cuts the next n bytes off o, which is the first in the queue. All parts belong to the
// epoch in which the first began, so that who waits for the one waits for all.
//
// Source: [OP-115]
func (b *Batch) cut(o *op, n int) *op {
	var x *op
	if last := len(b.spare) - 1; last >= 0 {
		x, b.spare = b.spare[last], b.spare[:last]
	} else {
		x = new(op)
	}
	if o.cut == 0 {
		o.epoch = o.f.writes.Begin()
		b.wholes++
	}
	*x = op{b: b, f: o.f, p: o.p[o.cut : o.cut+n], size: n, off: o.off + int64(o.cut), write: true,
		of: o, buf: o.buf, fid: o.fid, epoch: o.epoch}
	b.parts = append(b.parts, x)
	o.cut += n
	o.parts++
	if o.cut < o.size {
		x.epoch.More()
	} else {
		o.epoch = nil // which passes to the last part
		b.queued++
	}
	return x
}

// ended ends a part, and with the last one all of its operation, of which that is certain
// which lies before everything that went wrong.
//
// Source: [OP-61b], [OP-112]
func (b *Batch) ended(x *op, err error) {
	o := x.of
	o.parts--
	o.moved += x.moved
	o.used = o.used || x.used
	if err != nil {
		o.doubt = o.doubt || isUncertain(err)
		if at := int(x.off-o.off) + x.done; o.wrong == nil || at < o.done {
			o.done, o.wrong = at, err
		}
		b.dropRest(o)
	}
	i := slices.Index(b.parts, x)
	b.parts = slices.Delete(b.parts, i, i+1)
	*x = op{}
	b.spare = append(b.spare, x)
	if o.parts > 0 || o.cut < o.size {
		return
	}
	b.wholes--
	switch err = o.wrong; {
	case err == nil:
		o.done = o.size
	case o.doubt && !isUncertain(err):
		err = &uncertainError{err}
	}
	b.finish(o, err)
}

// dropRest takes an operation out of the queue, of which a part failed: the rest is not sent.
func (b *Batch) dropRest(o *op) {
	if o.cut == o.size {
		return
	}
	i := b.queued + slices.Index(b.queue[b.queued:], o)
	b.queue = slices.Delete(b.queue, i, i+1)
	o.cut = o.size
	o.epoch.End()
	o.epoch = nil
}

// live are all operations, and all parts.
func (b *Batch) live() []*op {
	all := slices.Clone(b.parts)
	for i := range b.ops {
		all = append(all, &b.ops[i])
	}
	return all
}

// answersFor is how many answers must come, at least, for n operations to be over.
func (b *Batch) answersFor(n int) int {
	if b.wholes == 0 {
		return n
	}
	least := 0
	for i := range b.ops {
		switch o := &b.ops[i]; {
		case o.s != nil:
			return n
		case o.parts > 0 && (least == 0 || o.parts < least):
			least = o.parts
		}
	}
	return n * max(least, 1)
}
