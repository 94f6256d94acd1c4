package nbd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"time"

	"lwio"
	"lwio/cmd/lwio/internal/nbd/nbdwire"
)

// operation is a read or a write.
type operation struct {
	request nbdwire.Request
	block   block
	files   *files // that the request went to
	err     error  // of a write that is refused before its data has arrived
}

// worker does requests of a connection, see the package comment. All fields but waiting belong to its goroutine.
type worker struct {
	t     *transmission
	batch *lwio.Batch
	ops   [batchSize]operation // by tag
	free  []uint8              // tags
	watch *time.Timer          // hands the lead over

	headers []byte      // of the replies that are being gathered
	parts   net.Buffers // of the same replies
	sent    []block     // their memory

	waiting bool // guarded by transmission.mu: w may lose the lead
}

// newWorker returns a worker without operations.
func newWorker(t *transmission) *worker {
	w := &worker{t: t, batch: t.export.client.NewBatch(batchSize)}
	w.headers = make([]byte, 0, batchSize*nbdwire.DataChunkSize)
	w.free = make([]uint8, 0, batchSize)
	for i := range batchSize {
		w.free = append(w.free, uint8(i))
	}
	return w
}

// close gives up the operations that there are.
func (w *worker) close() {
	_ = w.batch.Close() // it has no error
	for _, tag := range w.pending() {
		w.t.memory.release(w.ops[tag].block, true)
	}
}

// pending are the tags of the operations in the batch.
func (w *worker) pending() (tags []uint8) {
	var idle [batchSize]bool
	for _, tag := range w.free {
		idle[tag] = true
	}
	for i, f := range idle {
		if !f {
			tags = append(tags, uint8(i))
		}
	}
	return tags
}

// busy reports whether operations are in the batch.
func (w *worker) busy() bool { return len(w.free) < batchSize }

// run leads, and finishes the operations of w when another worker leads. Precondition: w leads.
func (w *worker) run(ctx context.Context) {
	w.watch = time.AfterFunc(time.Hour, func() { w.t.handOver(ctx, w) })
	defer w.watch.Stop()
	for leads := true; ; {
		if leads {
			w.lead(ctx)
		}
		if !w.busy() {
			if leads = w.t.retire(w); !leads {
				return
			}
			continue
		}
		if !w.complete(ctx) {
			w.t.abandon(w)
			return
		}
		leads = w.t.setWaiting(w, false)
	}
}

// lead reads requests and completes operations until w does not lead any more.
func (w *worker) lead(ctx context.Context) {
	for {
		stuck, err := w.receive(ctx)
		if err != nil {
			w.ended(err)
			return
		}
		if stuck && !w.busy() {
			select { // all memory or all places belong to other workers
			case <-w.t.memory.freed:
			case <-ctx.Done():
				return
			}
			continue
		}
		if !w.busy() {
			continue
		}
		w.t.setWaiting(w, true)
		if w.t.in.raw == nil {
			w.t.handOver(ctx, w) // a connection of TLS cannot be polled
		} else {
			w.watch.Reset(handOverTime)
		}
		ok := w.complete(ctx)
		w.watch.Stop()
		if leads := w.t.setWaiting(w, false); !ok || !leads {
			return
		}
	}
}

// ended ends the reading of requests after an error of receive.
func (w *worker) ended(err error) {
	t := w.t
	switch {
	case errors.Is(err, errDisconnect) || t.in.isEnd(err):
		t.end(nil)
	case isWoken(err) && t.draining.Load():
		w.refuseRest()
		t.end(nil)
	default:
		t.end(err)
	}
}

// refuseRest answers the requests that have arrived when the connection drains.
//
// Source: [NBD §Error values]
func (w *worker) refuseRest() {
	for in := &w.t.in; !in.receiving; {
		r, ok, err := in.request()
		if err != nil || !ok || r.Command == nbdwire.CmdWrite || r.Command == nbdwire.CmdDisc {
			return
		}
		in.takeRequest()
		w.t.answer(r.Cookie, refusal{nbdwire.ESHUTDOWN, "the server is being shut down"})
	}
}

// receive reads requests and begins them. It waits for the first one if w has no operations. stuck reports that
// a request has arrived for which there is no room.
func (w *worker) receive(ctx context.Context) (stuck bool, err error) {
	in := &w.t.in
	begun := false
	for {
		some, stuck, err := w.begin(ctx)
		begun = begun || some
		if stuck || err != nil {
			return stuck, err
		}
		block := !w.busy() && !begun
		got, more, err := in.fill(block)
		if err != nil {
			return false, err
		}
		if !got {
			return false, nil
		}
		if !more && w.busy() {
			_, stuck, err = w.begin(ctx)
			return stuck, err
		}
	}
}

// errDisconnect is the end of the requests by CmdDisc.
var errDisconnect = errors.New("the client disconnects")

// begin begins the requests that have arrived. some reports whether there were any.
func (w *worker) begin(ctx context.Context) (some, stuck bool, err error) {
	in := &w.t.in
	for {
		if in.receiving {
			if len(w.free) == 0 {
				return some, true, nil
			}
			if !in.take() {
				return some, false, nil
			}
			some = true
			o := in.partial
			in.partial = operation{}
			if o.err != nil {
				w.t.answer(o.request.Cookie, o.err)
			} else if err := w.queue(o); err != nil {
				return some, false, err
			}
			continue
		}
		r, ok, err := in.request()
		if err != nil || !ok {
			return some, false, err
		}
		switch done, err := w.beginOne(ctx, r); {
		case err != nil:
			return some, false, err
		case !done:
			return some, true, nil
		}
		some = true
	}
}

// beginOne begins a request and takes it out of the inbox. It reports false, and takes nothing, if there is no room.
func (w *worker) beginOne(ctx context.Context, r nbdwire.Request) (done bool, err error) {
	t := w.t
	refused := t.check(r)
	switch isIO := r.Command == nbdwire.CmdRead || r.Command == nbdwire.CmdWrite; {
	case r.Command == nbdwire.CmdDisc:
		return true, errDisconnect
	case refused != nil || isIO && r.Length == 0:
		return true, t.refuse(r, refused)
	case isIO:
		return w.beginIO(ctx, r)
	}
	select {
	case t.slow <- struct{}{}:
	default:
		return false, nil
	}
	t.in.takeRequest()
	t.wg.Go(func() {
		defer t.leaveSlow()
		t.answer(r.Cookie, t.command(ctx, r))
	})
	return true, nil
}

// refuse takes a request out of the inbox that needs no work, and answers it. The answer to a write follows its data.
func (t *transmission) refuse(r nbdwire.Request, why error) error {
	if r.Command == nbdwire.CmdWrite && r.Length > maxSkip {
		return fmt.Errorf("%w: a write of %d bytes", nbdwire.ErrMalformed, r.Length)
	}
	t.in.takeRequest()
	if r.Command == nbdwire.CmdWrite && r.Length > 0 {
		t.in.expect(operation{request: r, err: why})
		return nil
	}
	t.answer(r.Cookie, why)
	return nil
}

// leaveSlow gives the place of a slow request back.
func (t *transmission) leaveSlow() {
	<-t.slow
	t.memory.signal()
}

// beginIO begins a read, or the receiving of the data of a write.
func (w *worker) beginIO(ctx context.Context, r nbdwire.Request) (done bool, err error) {
	if len(w.free) == 0 {
		return false, nil
	}
	b, ok, err := w.t.memory.alloc(ctx, int(r.Length))
	if err != nil {
		return true, w.t.refuse(r, err)
	}
	if !ok {
		return false, nil
	}
	w.t.in.takeRequest()
	o := operation{request: r, block: b}
	if r.Command == nbdwire.CmdRead {
		return true, w.queue(o)
	}
	w.t.in.expect(o)
	return true, nil
}

// queue puts an operation into the batch. Precondition: w has a free tag.
func (w *worker) queue(o operation) error {
	n := len(w.free) - 1
	tag := w.free[n]
	w.free = w.free[:n]
	w.ops[tag] = o
	f := w.t.export.files.Load()
	w.ops[tag].files = f
	off := int64(o.request.Offset)
	switch {
	case o.request.Command == nbdwire.CmdRead:
		return w.batch.ReadAt(f.plain, o.block.p, off, uint64(tag))
	case o.request.Flags&nbdwire.FlagFUA != 0:
		return w.batch.WriteAt(f.durable, o.block.p, off, uint64(tag))
	}
	return w.batch.WriteAt(f.plain, o.block.p, off, uint64(tag))
}

// complete waits for at least one completion and answers the completed operations. It reports false if ctx has
// ended.
func (w *worker) complete(ctx context.Context) bool {
	done, err := w.batch.Wait(ctx, 1)
	for i := range done {
		c := &done[i]
		o := w.ops[c.Tag]
		w.ops[c.Tag] = operation{}
		w.free = append(w.free, uint8(c.Tag))
		w.answer(ctx, o, c.Err)
	}
	w.flush()
	return err == nil
}

// answer gathers the reply to an operation, or leaves it to a goroutine to do the operation again.
func (w *worker) answer(ctx context.Context, o operation, err error) {
	t := w.t
	if errors.Is(err, io.EOF) {
		err = errShrunk
	}
	if t.export.repeatable(o.files, err) || err == nil && !t.wrote(&o) {
		t.wg.Go(func() { t.repeat(ctx, o) })
		return
	}
	if err != nil {
		t.log.Warn("nbd: request failed", "command", o.request.Command, "offset", o.request.Offset, "length", o.request.Length, "err", err)
		t.memory.release(o.block, true)
		w.gather(t.appendAnswer(nil, o.request.Cookie, err), nil)
		return
	}
	if o.request.Command != nbdwire.CmdRead {
		t.memory.release(o.block, false)
		at := len(w.headers)
		w.headers = t.appendAnswer(w.headers, o.request.Cookie, nil)
		w.gather(w.headers[at:], nil)
		return
	}
	at := len(w.headers)
	w.headers = t.appendDataHeader(w.headers, o.request)
	w.gather(w.headers[at:], o.block.p)
	w.sent = append(w.sent, o.block)
}

// errShrunk is the end of the file within an export.
var errShrunk = errors.New("the file is shorter than the export")

// wrote notes an operation that has succeeded. It reports false for a write that has to be done again.
func (t *transmission) wrote(o *operation) bool {
	if o.request.Command != nbdwire.CmdWrite || o.request.Flags&nbdwire.FlagFUA != 0 {
		return true
	}
	return t.export.wrote(o.files)
}

// appendDataHeader appends the header of the reply to a successful read of at least one byte.
func (t *transmission) appendDataHeader(b []byte, r nbdwire.Request) []byte {
	if t.structured {
		return nbdwire.AppendDataChunk(b, r.Cookie, r.Offset, r.Length)
	}
	return nbdwire.AppendSimpleReply(b, r.Cookie, 0)
}

// gather adds a reply to those that flush writes.
func (w *worker) gather(header, data []byte) {
	w.parts = append(w.parts, header)
	if len(data) > 0 {
		w.parts = append(w.parts, data)
	}
}

// flush writes the gathered replies and releases their memory.
func (w *worker) flush() {
	if len(w.parts) == 0 {
		return
	}
	err := w.t.write(w.parts)
	clear(w.parts)
	w.parts, w.headers = w.parts[:0], w.headers[:0]
	for i, b := range w.sent {
		w.t.memory.release(b, false)
		w.sent[i] = block{}
	}
	w.sent = w.sent[:0]
	if err != nil {
		w.t.fail(err)
	}
}

// repeat does an operation again whose outcome is not known, or whose file the server does not keep. The data is in other
// memory, because the server may still use the block. The block stays allocated meanwhile: it bounds the memory.
func (t *transmission) repeat(ctx context.Context, o operation) {
	r := o.request
	data := make([]byte, r.Length)
	if r.Command == nbdwire.CmdWrite {
		copy(data, o.block.p)
	}
	defer t.memory.release(o.block, true)
	err := t.export.again(ctx, func(f *files) (err error) {
		o.files = f
		switch {
		case r.Command == nbdwire.CmdRead:
			_, err = f.plain.ReadAtContext(ctx, data, int64(r.Offset))
		case r.Flags&nbdwire.FlagFUA != 0:
			_, err = f.durable.WriteAtContext(ctx, data, int64(r.Offset))
		default:
			_, err = f.plain.WriteAtContext(ctx, data, int64(r.Offset))
		}
		if err == nil && !t.wrote(&o) {
			return fs.ErrClosed // and do it again
		}
		return err
	})
	if errors.Is(err, io.EOF) {
		err = errShrunk
	}
	if err != nil || r.Command == nbdwire.CmdWrite {
		if err != nil {
			t.log.Warn("nbd: request failed again", "command", r.Command, "offset", r.Offset, "length", r.Length, "err", err)
		}
		t.answer(r.Cookie, err)
		return
	}
	if err := t.write(net.Buffers{t.appendDataHeader(nil, r), data}); err != nil {
		t.fail(err)
	}
}
