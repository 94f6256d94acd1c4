package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// chunkSize is the size of one read and one write of a transfer, in bytes. It is the size
// of a huge page: a file system takes one page for a write of that size, and else hundreds.
// A virtual machine may have to request each page from its host. The client library splits
// it into requests in flight.
const chunkSize = 2 << 20

// maxDepth bounds the chunks of one transfer in flight, and with it the memory.
const maxDepth = 8

// source has the bytes of a transfer.
type source interface {
	// Size is the number of bytes, or -1 for a stream.
	Size() int64
	// ReadChunk fills p with the bytes at off; io.EOF says that there are no bytes after
	// the n returned bytes. A stream is read by one goroutine at a time with consecutive
	// offsets, any other source by many.
	ReadChunk(ctx context.Context, p []byte, off int64) (int, error)
}

// sizedSource is a source whose size became known.
type sizedSource struct {
	source
	size int64
}

func (s sizedSource) Size() int64 { return s.size }

// sink takes the bytes of a transfer.
type sink interface {
	// Ordered reports whether chunks must come one at a time and in order.
	Ordered() bool
	WriteChunk(ctx context.Context, p []byte, off int64) error
}

// transferOptions say how to transfer.
type transferOptions struct {
	// depth is the number of chunks that may be in flight; at least 1.
	depth int
	// begin is the offset of the first byte that is copied, of a source with a size.
	begin int64
	// window bounds the bytes from the first one that has not arrived to the last one that is in
	// flight; 0 is no bound.
	window int64
	// progress, if set, is called with the number of bytes that arrived.
	progress func(n int)
}

// errShrank is the error of a source that was shorter than its size.
var errShrank = errors.New("the source became shorter during the copy")

// transfer copies all of src to dst and returns the number of bytes that arrived. Reads and
// writes of up to opts.depth chunks are in flight at a time. After a failure it begins no
// more chunks and waits for the chunks in flight: cancelling I/O over RDMA invalidates
// memory that the server may be writing to, which costs the connection. After a time limit
// it cancels the chunks in flight.
func transfer(ctx context.Context, src source, dst sink, opts transferOptions) (int64, error) {
	whole, giveUp := context.WithCancel(ctx)
	defer giveUp()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := &transferState{ctx: ctx, io: whole, src: src, dst: dst, opts: opts, size: src.Size(), next: opts.begin}
	t.gaps.low = opts.begin
	t.turn.L = &t.mu
	depth := min(max(opts.depth, 1), maxDepth)
	if t.size >= 0 {
		depth = int(min(int64(depth), t.size/chunkSize+1))
	}
	stop := context.AfterFunc(ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.turn.Broadcast()
	})
	defer stop()
	var wg sync.WaitGroup
	for range depth {
		wg.Go(func() {
			if err := t.work(); err != nil {
				cancel(err)
				if outOfTime(err) {
					giveUp()
				}
			}
		})
	}
	wg.Wait()
	return t.arrived.Load(), context.Cause(ctx)
}

// transferState is shared by the workers of one transfer.
type transferState struct {
	ctx  context.Context // ends with the first failure: no chunk is begun after it
	io   context.Context // of chunks in flight
	src  source
	dst  sink
	opts transferOptions
	size int64

	arrived atomic.Int64

	streamMu sync.Mutex // held while a stream is read

	mu      sync.Mutex
	turn    sync.Cond // signals a change of written, or the end of ctx
	next    int64     // offset of the next chunk to read
	written int64     // an ordered sink has everything before this offset
	ended   bool      // the stream is at its end
	gaps    gaps
}

// gaps are the chunks of a transfer that have not arrived.
type gaps struct {
	low    int64           // everything before it has arrived
	behind map[int64]int64 // the ends of chunks behind low that have arrived, by their offsets
}

// arrived adds a chunk that has arrived.
func (g *gaps) arrived(off, n int64) {
	if g.behind == nil {
		g.behind = make(map[int64]int64)
	}
	g.behind[off] = off + n
	for end, ok := g.behind[g.low]; ok; end, ok = g.behind[g.low] {
		delete(g.behind, g.low)
		g.low = end
	}
}

// work moves chunks until the end.
func (t *transferState) work() error {
	b := chunks.Get().(*[]byte)
	defer chunks.Put(b)
	buf := *b
	for t.ctx.Err() == nil {
		off, n, err := t.read(buf)
		if err != nil || n == 0 {
			return err
		}
		if err := t.write(buf[:n], off); err != nil {
			return err
		}
		t.arrived.Add(int64(n))
		t.note(off, int64(n))
		if t.opts.progress != nil {
			t.opts.progress(n)
		}
	}
	return nil
}

// chunks holds buffers of chunkSize bytes between transfers.
var chunks = sync.Pool{New: func() any { b := make([]byte, chunkSize); return &b }}

// read takes the next chunk; 0 bytes are the end.
func (t *transferState) read(buf []byte) (off int64, n int, err error) {
	if t.size < 0 {
		return t.readStream(buf)
	}
	t.mu.Lock()
	for t.opts.window > 0 && t.next-t.gaps.low >= t.opts.window && t.ctx.Err() == nil {
		t.turn.Wait()
	}
	off = t.next
	want := min(int64(len(buf)), t.size-off)
	t.next += want
	t.mu.Unlock()
	if want == 0 {
		return off, 0, nil
	}
	n, err = t.src.ReadChunk(t.io, buf[:want], off)
	if int64(n) == want {
		return off, n, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %d bytes at offset %d, not %d", errShrank, n, off, want)
	}
	return off, n, err
}

// note notes that a chunk has arrived.
func (t *transferState) note(off, n int64) {
	if t.opts.window == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gaps.arrived(off, n)
	t.turn.Broadcast()
}

func (t *transferState) readStream(buf []byte) (off int64, n int, err error) {
	t.streamMu.Lock()
	defer t.streamMu.Unlock()
	if t.ended {
		return t.next, 0, nil
	}
	off = t.next
	n, err = t.src.ReadChunk(t.ctx, buf, off) // a stream may block
	// No worker reads again after a failure: a canceled read may still use the stream.
	t.ended = err != nil
	if errors.Is(err, io.EOF) {
		err = nil
	}
	t.next += int64(n)
	return off, n, err
}

// write writes a chunk at its offset, in its turn if the sink needs order.
func (t *transferState) write(p []byte, off int64) error {
	if !t.dst.Ordered() {
		return t.dst.WriteChunk(t.io, p, off)
	}
	t.mu.Lock()
	for t.written != off && t.ctx.Err() == nil {
		t.turn.Wait()
	}
	t.mu.Unlock()
	if err := t.ctx.Err(); err != nil {
		return context.Cause(t.ctx)
	}
	if err := t.dst.WriteChunk(t.io, p, off); err != nil {
		return err // no later chunk is written after a failure
	}
	t.mu.Lock()
	t.written = off + int64(len(p))
	t.turn.Broadcast()
	t.mu.Unlock()
	return nil
}

// errDiffers is the error of a verification that found other bytes.
var errDiffers = errors.New("verification failed: the copy differs")

// compareSink is a sink that checks that another source has the same bytes.
type compareSink struct{ other source }

// Ordered is false: chunks are compared in any order.
func (c *compareSink) Ordered() bool { return false }

// WriteChunk compares p with the other source's bytes at off.
func (c *compareSink) WriteChunk(ctx context.Context, p []byte, off int64) error {
	b := chunks.Get().(*[]byte)
	defer chunks.Put(b)
	n, err := c.other.ReadChunk(ctx, (*b)[:len(p)], off)
	if n < len(p) && err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if !bytes.Equal((*b)[:n], p) {
		return fmt.Errorf("%w between offsets %d and %d", errDiffers, off, off+int64(len(p)))
	}
	return nil
}

// compare checks that two sources of known size have the same bytes.
func compare(ctx context.Context, a, b source, opts transferOptions) error {
	if a.Size() != b.Size() {
		return fmt.Errorf("%w: %d bytes, not %d", errDiffers, b.Size(), a.Size())
	}
	_, err := transfer(ctx, a, &compareSink{other: b}, opts)
	return err
}
