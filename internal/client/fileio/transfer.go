package fileio

import (
	"context"
	"errors"
	"io"
	"sync"

	"lwio/internal/client/base"
	"lwio/internal/client/rdmaconn"
	"lwio/internal/client/segments"
	"lwio/internal/client/smbshare"
	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbclient"
)

// smbFlight are the operations of a queue in flight over SMB. The only part of a blocking call is
// done by the goroutine of the call; each other part has a goroutine.
type smbFlight struct {
	flight  flight
	pending sendList        // to be sent
	ctx     context.Context // of operations that no call waits for; made when it is first used
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// smbResult is the state of an operation that goes over SMB.
type smbResult struct {
	used    bool
	running bool // its goroutine has not ended
	over    bool // n and err are there
	n       int
	moved   int // bytes
	err     error
}

// add counts the bytes of a part.
func (r *smbResult) add(part *smbResult) {
	r.used = r.used || part.used
	r.moved += part.moved
}

// sendOverSMB sends the operations that go over SMB, with up to maxPieces parts in flight.
//
// Errors: ctx's; the operation stays queued.
func (q *queue) sendOverSMB(ctx context.Context) error {
	for l := &q.smb.pending; !l.empty() && !q.flights.broken() && q.most() > 0; {
		o := l.first()
		part := o.part(nil)
		if part > 0 && q.smb.flight.sent >= maxPieces {
			return nil
		}
		if err := o.refused(ctx); err != nil {
			if ctx.Err() != nil {
				return err
			}
			q.finish(q.dequeueRest(l), err)
			continue
		}
		q.sendSMB(ctx, q.dequeue(l, part))
	}
	return nil
}

// sendSMB does o over SMB.
func (q *queue) sendSMB(ctx context.Context, o *operation) {
	if o.size == 0 {
		q.finish(o, nil)
		return
	}
	if o.same && o.plain == nil {
		o.fill()
	}
	if o.write && o.epoch == nil {
		o.epoch = o.f.writes.Begin()
	}
	o.smb.used = true
	if q.Call && o.of == nil {
		o.smb.n, o.smb.err = o.transfer(ctx)
		q.finish(o, o.takeSMB())
		return
	}
	if !q.Call {
		if q.smb.ctx == nil {
			q.smb.ctx, q.smb.cancel = context.WithCancel(context.Background())
		}
		ctx = q.smb.ctx
	}
	o.flight, o.smb.running = &q.smb.flight, true
	q.sent++
	o.flight.sent++
	q.smb.running.Go(func() {
		o.smb.n, o.smb.err = o.transfer(ctx)
		if o.epoch != nil { // the write is over, whether or not the program waits for it
			o.epoch.End()
			o.epoch = nil
		}
		o.smb.over = true
		q.Return(&o.Ticket)
	})
}

// takeSMB reads the result of a transfer.
func (o *operation) takeSMB() error {
	n, err := o.smb.n, o.smb.err
	o.smb.over, o.smb.running = false, false
	o.smb.moved += n
	if o.done += n; err == nil && o.done < o.size {
		err = io.ErrNoProgress
	}
	return err
}

// transfer does the rest of o over SMB, and returns how many bytes of it are done.
func (o *operation) transfer(ctx context.Context) (n int, err error) {
	do := o.f.readSMB
	if o.write {
		do = o.f.writeSMB
	}
	skip := o.done
	switch {
	case o.plain != nil:
		for at := o.done; at < o.size && err == nil; at = o.done + n {
			p := o.plain.bytes[at%rdmaconn.ProtocolPage:]
			var m int
			m, err = do(ctx, p[:min(len(p), o.size-at)], o.off+int64(at), nil)
			n += m
		}
		return n, err
	case o.segs == nil:
		return do(ctx, o.p[o.done:], o.off+int64(o.done), o.buf)
	}
	if err := o.gone(); err != nil {
		return 0, err
	}
	if o.write {
		return o.writeGathered(ctx)
	}
	for _, p := range o.segs {
		if skip >= len(p) {
			skip -= len(p)
			continue
		}
		p = p[skip:]
		skip = 0
		m, err := do(ctx, p, o.off+int64(o.done+n), o.q.c.Buffers.Of(p))
		if n += m; err != nil || m < len(p) {
			return n, err
		}
	}
	return n, nil
}

// gatherSize is how many bytes of segments one message over SMB carries.
const gatherSize = 64 << 10

// writeGathered writes the rest of the segments of o over SMB, with as few messages as hold
// them, and returns how many bytes are written.
func (o *operation) writeGathered(ctx context.Context) (n int, err error) {
	for at := o.done; at < o.size && err == nil; at = o.done + n {
		var p []byte
		if p, err = o.gather(ctx, at, min(o.size-at, gatherSize)); err != nil {
			return n, err
		}
		var m int
		m, err = o.f.writeSMB(ctx, p, o.off+int64(at), nil)
		n += m
	}
	return n, err
}

// gather returns a copy of n bytes of the segments from byte at on.
func (o *operation) gather(ctx context.Context, at, n int) ([]byte, error) {
	ctx, cancel := o.f.c.Cfg.Bounded(ctx)
	defer cancel()
	p := make([]byte, 0, n)
	for _, seg := range segments.Part(o.segs, at, n) {
		buf := o.q.c.Buffers.Of(seg)
		if err := buf.Reclaim(ctx); err != nil {
			return nil, err
		}
		p = append(p, seg...)
		buf.Release()
	}
	return p, nil
}

// sleep waits for answers while nothing is in flight over RDMA.
func (s *smbFlight) sleep(ctx context.Context, answers *rdmaconn.Arrivals) {
	for !answers.Ready() {
		select {
		case <-s.flight.Token():
		case <-ctx.Done():
			return
		}
	}
}

// stop ends the operations in flight, and waits for their goroutines.
func (s *smbFlight) stop() {
	if s.cancel != nil {
		s.cancel()
		s.ctx, s.cancel = nil, nil
	}
	s.running.Wait()
}

// readSMB reads over SMB; of is the Buffer that p is part of, or nil.
func (f *File) readSMB(ctx context.Context, p []byte, off int64, of *rdmaconn.Buffer) (int, error) {
	ctx, cancel := f.c.Cfg.Bounded(ctx)
	defer cancel()
	if err := of.Reclaim(ctx); err != nil {
		return 0, err
	}
	defer of.Release()
	n, err := f.h.ReadAt(ctx, p, off)
	if errors.Is(err, ntstatus.EndOfFile) {
		err = io.EOF
	}
	return n, err
}

// writeSMB writes over SMB; of is as for readSMB.
func (f *File) writeSMB(ctx context.Context, p []byte, off int64, of *rdmaconn.Buffer) (int, error) {
	ctx, cancel := f.c.Cfg.Bounded(ctx)
	defer cancel()
	if err := f.c.Fence(ctx); err != nil {
		return 0, err
	}
	if err := of.Reclaim(ctx); err != nil {
		return 0, err
	}
	defer of.Release()
	n, err := f.h.WriteAt(ctx, p, off)
	if err != nil && !smbclient.Refused(err) && !smbshare.Unsent(err) {
		err = base.Uncertain(err)
	}
	return n, err
}
