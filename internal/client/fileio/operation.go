package fileio

import (
	"context"
	"io"

	"lwio/internal/client/barrier"
	"lwio/internal/client/base"
	"lwio/internal/client/paths"
	"lwio/internal/client/rdmaconn"
	"lwio/internal/client/segments"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
)

// arguments are the parameters of an operation.
type arguments struct {
	p     []byte   // memory; a page for same; nil for segments
	segs  [][]byte // memory of a vectored operation, or nil
	page  int      // page size of a vectored read, 0 if it has none
	size  int      // bytes
	off   int64
	write bool
	same  bool               // p is a page to be written over and over
	timed bool               // the caller has a deadline of its own
	held  []*rdmaconn.Buffer // that segs are parts of
}

// operation is an operation of a queue, or a part of one. A part has one request in flight at
// a time, and goes on with the next after a short answer. It is the queue's goroutine's, but
// from when it was sent until it is among those that came back.
type operation struct {
	rdmaconn.Ticket
	arguments
	q    *queue
	f    *File
	tag  uint64
	busy bool
	done int // bytes

	buf *rdmaconn.Buffer // that p is part of, or nil
	memory

	flight *flight // of its request in flight
	fid    uint16
	n      int            // bytes of the request in flight
	plain  *pageRun       // of same, where the server repeats no pages: the data of plain writes
	bounce bool           // the data of a read comes through the request table
	epoch  *barrier.Epoch // of a write, until its last request is answered
	used   bool           // RDMA was
	moved  int            // bytes over RDMA

	overSMB bool // it goes over SMB from now on
	smb     smbResult

	of *operation // that it is a part of, or nil
	whole

	replay

	ios    wire.IOStatusBlock
	failed error // instead of ios
}

// begin makes o an operation of q that is not used.
func (o *operation) begin(q *queue) {
	*o = operation{q: q}
	o.To, o.Owner = &q.Arrivals, o
}

// joins reports whether o can be sent on cn without waiting for anything but a credit: as
// long as the caller uses the connection, nothing takes its place.
func (o *operation) joins(ctx context.Context, cn *rdmaconn.Conn) bool {
	if o.unacked != nil || o.size == 0 || o.overSMB || o.q.c.MustFence() || o.refused(ctx) != nil {
		return false
	}
	if o.cut == 0 && o.on != nil && o.on != cn && !o.on.IsDown() {
		return false // it goes on where it is registered
	}
	next, fid := o.f.pathNow(paths.PathOf(cn))
	o.fid = fid
	return next == cn
}

// limit is how many bytes the next request of o may have on cn, from its byte at on.
//
// Source: [OP-60], [OP-60b], [OP-61], [OP-76]
func (o *operation) limit(cn *rdmaconn.Conn, at int) int {
	left := o.size - at
	switch {
	case o.plain != nil:
		return min(left, len(o.plain.bytes)-at%rdmaconn.ProtocolPage, cn.Limits.Write)
	case o.same:
		return min(left, cn.Limits.Same)
	case o.segs == nil && o.write:
		return min(left, cn.Limits.Write)
	case o.segs == nil:
		return min(left, cn.Limits.Read)
	case o.write:
		return segments.Fit(o.segs, at, cn.Limits.Gather, cn.Limits.Write)
	case o.byPages(at) && !cn.Sealed():
		n := min(left, o.page*min(maxRegions, cn.Limits.Write/wire.RDMARegionSize))
		return n - n%o.f.sector()
	}
	return segments.Fit(o.segs, at, 1, cn.Limits.Read)
}

// prepare registers o's memory and gives it the entry s.
func (o *operation) prepare(ctx context.Context, cn *rdmaconn.Conn, s *rdmaconn.Request) error {
	if o.on != cn {
		o.takeBack()
		o.on = cn
	}
	if err := o.gone(); err != nil {
		return err
	}
	if err := o.reach(ctx, cn); err != nil {
		return err
	}
	o.n = o.limit(cn, o.done)
	if o.write && o.epoch == nil {
		o.epoch = o.f.writes.Begin()
	}
	o.bounce = !o.write && o.segs == nil && o.mr == nil && o.shared == nil && o.leased == nil
	r := rdmaconn.IO{Write: o.write, Bytes: o.n, Timed: o.timed}
	if o.segs != nil || !o.write || !copies(len(o.p), o.leased) {
		r.Buffer = o.leased
	}
	if o.unacked != nil {
		if err := o.repeat(cn, &r); err != nil {
			return err
		}
	}
	o.failed, o.used = nil, true
	o.Prepare(s, r)
	return nil
}

// Message makes h and data the next request of o.
func (o *operation) Message(s *rdmaconn.Request, h *wire.Header, data *rdmaconn.Payload) {
	*data = rdmaconn.Payload{}
	switch {
	case o.segs != nil:
		o.vectored(s, h, data)
		return
	case o.plain != nil:
		*h = wire.NewWrite(o.fid, uint64(o.off+int64(o.done)), uint32(o.n))
		if at := o.done % rdmaconn.ProtocolPage; o.shared == nil {
			data.Copied = o.plain.bytes[at:][:o.n]
		} else {
			data.Region, data.Offset, data.Length = o.shared, at, o.n
		}
		return
	case o.same:
		*h, data.Copied = sameHeader(o.fid, o.off+int64(o.done), o.n), o.p[:min(o.n, len(o.p))]
		return
	}
	mr, at := o.mr, o.done
	switch {
	case o.leased != nil:
		mr, at = o.leased.Region, o.at+o.done
	case o.shared != nil:
		mr, at = o.shared, o.at+o.done
	}
	if o.write {
		*h = wire.NewWrite(o.fid, uint64(o.off+int64(o.done)), uint32(o.n))
		if mr == nil || copies(len(o.p), o.leased) {
			data.Copied = o.p[o.done:][:o.n]
		} else {
			data.Region, data.Offset, data.Length = mr, at, o.n
		}
		return
	}
	var to rdma.RemoteAddr
	if o.bounce {
		to = o.on.BounceAddr(s)
	} else {
		to = mr.RemoteAddr()
		to.Addr += uint64(at)
	}
	*h = wire.NewRead(o.fid, uint64(o.off+int64(o.done)),
		wire.RDMARegion{DataVa: to.Addr, DataMh: uint32(to.Token), Length: uint32(o.n)})
}

// Answer notes the answer to the request, and ends the epoch of a write that has no other
// request to send.
func (o *operation) Answer(ios wire.IOStatusBlock, err error) {
	o.ios, o.failed = ios, err
	if o.epoch != nil && !o.goesOn() {
		o.epoch.End()
		o.epoch = nil
	}
}

// goesOn reports whether a write that was answered has another request to send.
func (o *operation) goesOn() bool {
	return o.failed == nil && o.ios.Status == 0 && int(o.ios.Information) == o.n && o.done+o.n < o.size
}

// Deliver copies the data of a small read, if o is one, before its request is used again.
func (o *operation) Deliver(bounce []byte, ios wire.IOStatusBlock) {
	if o.bounce && ios.Status == 0 {
		copy(o.p[o.done:][:o.n], bounce[:min(int(ios.Information), o.n)])
	}
}

// take reads the answer to o's request.
func (o *operation) take() error {
	replayed := o.unacked
	o.acknowledge()
	switch {
	case o.smb.over:
		return o.takeSMB()
	case o.failed != nil && o.write:
		return base.Uncertain(o.failed)
	case o.failed != nil:
		return o.failed
	case replayed != nil && o.ios.Status == overtaken:
		return replayed.uncertain(errOvertaken)
	}
	n, err := int(o.ios.Information), error(nil)
	switch {
	case !o.write:
		n, err = readResult(o.ios)
		if err == nil {
			if err = o.open(n); err != nil {
				n = 0
			}
		}
	case o.ios.Status != 0:
		n, err = 0, rdmaconn.StatusError(o.ios.Status)
	case n < o.n:
		err = io.ErrShortWrite
	}
	o.done += n
	o.moved += n
	if n > 0 {
		o.losses = 0
	}
	return err
}

// finish ends o.
func (q *queue) finish(o *operation, err error) {
	o.acknowledge()
	o.unregister()
	o.run.Close()
	if o.epoch != nil {
		o.epoch.End()
		o.epoch = nil
	}
	if o.of != nil {
		q.ended(o, err)
		return
	}
	q.tallied(o, err)
	if err != nil && !q.Call {
		err = o.f.failed(o.verb(), err)
	}
	q.out = append(q.out, Completion{o.tag, o.done, err})
	o.begin(q)
	q.idle = append(q.idle, o)
}

// verb names the operation in an error.
func (o *operation) verb() string {
	if o.write {
		return "write"
	}
	return "read"
}

// tallied counts an operation that is over, by the transports that carried its data.
func (q *queue) tallied(o *operation, err error) {
	if o.used && (o.moved > 0 || err == nil) {
		if o.write {
			q.c.overRDMA.Wrote(o.moved)
		} else {
			q.reads++
			q.readBytes += uint64(o.moved)
		}
	}
	if o.smb.used && (o.smb.moved > 0 || err == nil) {
		if o.write {
			q.c.overSMB.Wrote(o.smb.moved)
		} else {
			q.c.overSMB.Read(o.smb.moved)
		}
	}
}

// overtaken is the answer to a write that was sent again and cannot be done again: it was in progress when the server
// died, and the file was changed since.
const overtaken = uint32(ntstatus.RequestOutOfSequence)

// endOfFile is the answer to a read at or after the end.
const endOfFile = uint32(ntstatus.EndOfFile)

// readResult reads the answer to a READ.
func readResult(ios wire.IOStatusBlock) (int, error) {
	switch ios.Status {
	case 0:
		if ios.Information == 0 {
			return 0, base.ProtocolError("the server read nothing and does not say why")
		}
		return int(ios.Information), nil
	case endOfFile:
		return 0, io.EOF
	}
	return 0, rdmaconn.StatusError(ios.Status)
}
