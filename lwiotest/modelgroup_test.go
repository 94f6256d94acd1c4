package lwiotest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime/pprof"
	"slices"
	"sync"
	"time"

	"pgregory.net/rapid"

	"lwio"
	"lwio/internal/test/filemodel"
)

// owner is the origin of a write that may still take effect, with the state of its connection.
type owner struct {
	client *client
	f      *lwio.File
	group  int    // of operations that it was one of
	smb    bool   // it may have gone over SMB
	broken bool   // it was on no connection but those that are lost
	lost   uint64 // connections lost when it was given up
}

// operation is a read or a write of a group that is done at once.
type operation struct {
	k     *client
	f     *lwio.File // of k
	write bool
	same  bool // the memory is a page, which is written until data is
	mem   *memory
	segs  [][]byte // instead of all of the memory in one, or nil
	off   int64
	data  []byte // of a write; never changed

	n    int
	err  error
	over bool // it was answered; else the caller gave up
}

// String describes the operation and its result.
func (o *operation) String() string {
	verb := map[bool]string{false: "read", true: "write"}[o.write]
	if o.same {
		verb += " same"
	}
	if o.f == o.k.second {
		verb += " over SMB"
	}
	if !o.over {
		return fmt.Sprintf("%s: %s [%d, +%d): given up", o.k, verb, o.off, o.size())
	}
	return fmt.Sprintf("%s: %s [%d, +%d): %d, %v", o.k, verb, o.off, o.size(), o.n, o.err)
}

// size is the number of bytes to read or write.
func (o *operation) size() int {
	if o.same {
		return len(o.data)
	}
	return len(o.mem.p)
}

// open gives o a file of its client.
func (o *operation) open(rt *rapid.T, k *client) {
	o.k, o.f = k, k.file(rt)
}

// caller is a goroutine that does one operation, or several with a batch.
type caller struct {
	ops    []*operation
	batch  bool
	leaves bool       // closes the batch when its context ends, instead of waiting
	syncs  *lwio.File // by another goroutine, after Submit; or nil
	synced error      // the result
}

// source is the data of all writes: each takes a part of it.
var source = func() []byte {
	p := make([]byte, 8<<20)
	_, _ = rand.NewChaCha8([32]byte{'m'}).Read(p)
	return p
}()

const (
	largest  = 1 << 20 // operation, in bytes
	repeated = 3 << 20 // at most by a page, in bytes
	farthest = 1 << 20 // offset
)

// draw makes an operation.
func (w *world) draw(rt *rapid.T, write bool) *operation {
	edges := []int{0, 1, 511, 512, 1023, 1024, 1025, 4095, 4096, 4097, 8192, 65535, 65536, 65537}
	for _, n := range []int{w.limits.MaxRecvBufferSize, w.limits.MaxRDMAWindowSize} {
		if n > 0 {
			edges = append(edges, n-1, n, n+1)
		}
	}
	sizes := rapid.OneOf(rapid.SampledFrom(edges), rapid.IntRange(0, 5000), rapid.IntRange(0, 200_000))
	n := sizes.Draw(rt, "size")
	if rapid.IntRange(0, 40).Draw(rt, "large") == 40 {
		n = rapid.IntRange(0, largest).Draw(rt, "large size")
	}
	offs := rapid.OneOf(rapid.IntRange(0, 3000), rapid.SampledFrom(edges), rapid.IntRange(0, farthest))
	o := &operation{write: write || rapid.Bool().Draw(rt, "write"), off: int64(offs.Draw(rt, "offset"))}
	o.open(rt, w.some(rt))
	if o.write {
		w.serial++
	}
	at := (w.serial * 7919) % (len(source) - largest)
	switch {
	case o.write && o.k.unbuffered && rapid.IntRange(0, 3).Draw(rt, "same") == 3:
		o.drawSame(rt, source[at:], n)
	case o.write:
		o.mem, o.data = o.k.memory(rt, n), source[at:][:n]
		copy(o.mem.p, o.data)
	default:
		o.mem = o.k.memory(rt, n)
	}
	return o
}

// drawSame makes o a write of n bytes, or of many more, by a page of p.
func (o *operation) drawSame(rt *rapid.T, p []byte, n int) {
	if rapid.IntRange(0, 10).Draw(rt, "large same") == 10 {
		n = rapid.IntRange(largest, repeated).Draw(rt, "large size of same")
	}
	page := p[:1<<rapid.IntRange(0, 12).Draw(rt, "page")]
	o.same, o.mem, o.data = true, o.k.memory(rt, len(page)), bytes.Repeat(page, n/len(page)+1)[:n]
	copy(o.mem.p, page)
}

// together draws and does operations at once, from at least so many callers to at most.
func (w *world) together(rt *rapid.T, least, most int) {
	var callers []*caller
	for range rapid.IntRange(least, most).Draw(rt, "callers") {
		c := &caller{ops: []*operation{w.draw(rt, false)}}
		switch rapid.SampledFrom([]string{"call", "call", "segments", "batch"}).Draw(rt, "how") {
		case "segments":
			if !c.ops[0].same {
				c.ops[0].segs = filemodel.Segments(rt, c.ops[0].mem.p)
			}
		case "batch":
			w.drawBatch(rt, c)
		}
		callers = append(callers, c)
	}
	w.do(rt, callers, w.patience(rt, ""))
}

// drawBatch makes c a batch of more operations, which may be on both files of the client.
func (w *world) drawBatch(rt *rapid.T, c *caller) {
	k := c.ops[0].k
	c.batch, c.leaves = true, rapid.Bool().Draw(rt, "leaves")
	for range rapid.IntRange(0, 8).Draw(rt, "more") {
		o := w.draw(rt, false)
		if o.same && !k.unbuffered {
			continue
		}
		o.open(rt, k) // memory of another client's Buffer is memory like any other
		c.ops = append(c.ops, o)
	}
	if rapid.IntRange(0, 3).Draw(rt, "sync after Submit") == 3 {
		c.syncs = k.file(rt)
	}
}

// overtake gives up a write that takes long, and writes the same place again, perhaps
// on another way.
func (w *world) overtake(rt *rapid.T) {
	w.stall.Store(int32(rapid.IntRange(0, 2).Draw(rt, "writes before the long one")))
	first := w.draw(rt, true)
	w.do(rt, []*caller{{ops: []*operation{first}}}, w.patience(rt, "at a time"))
	if rapid.Bool().Draw(rt, "cut") {
		w.fault(rt)
	}
	again := w.draw(rt, true)
	for again.same && !first.k.unbuffered {
		again = w.draw(rt, true)
	}
	again.open(rt, first.k)
	again.off = first.off
	w.do(rt, []*caller{{ops: []*operation{again}}}, patience{})
}

// do lets the callers do their operations, and judges them.
func (w *world) do(rt *rapid.T, callers []*caller, p patience) {
	ctx, cancel := w.start(p)
	defer cancel()
	w.group++
	for _, k := range w.clients {
		st := k.c.Stats()
		k.before, k.logons = st.Lost, st.SMBReconnects
	}
	w.run(rt, ctx, callers)
	left := ctx.Err() != nil
	for _, k := range w.clients {
		k.lost = k.c.Stats().Lost
	}
	var ops []*operation
	for _, c := range callers {
		ops = append(ops, c.ops...)
	}
	for _, o := range ops {
		w.logf(rt, "%v", o)
	}
	w.judge(rt, ops, left)
	for _, c := range callers {
		w.judgeSync(rt, c, left)
	}
	for _, k := range w.clients {
		k.renew()
	}
	w.untouched(rt)
}

// patience says when a caller leaves.
type patience struct {
	when string  // "": never
	at   *faults // "at a request" of a side
	left int     // requests before
	time time.Duration
}

// patience draws when callers leave, if it is not fixed.
func (w *world) patience(rt *rapid.T, when string) patience {
	if when == "" {
		when = rapid.SampledFrom([]string{"", "", "", "", "before", "at a request", "at a time"}).Draw(rt, "leaves")
	}
	p := patience{when: when}
	switch when {
	case "at a request":
		p.at, p.left = w.side(rt), rapid.IntRange(0, 5).Draw(rt, "requests before")
	case "at a time":
		p.time = time.Duration(rapid.IntRange(0, 1000).Draw(rt, "µs")) * time.Microsecond
	}
	return p
}

// side is the side of the faults: a client, or the server.
func (w *world) side(rt *rapid.T) *faults {
	if rapid.Bool().Draw(rt, "at the server") {
		return w.faults
	}
	return w.some(rt).faults
}

// start makes the context of callers.
func (w *world) start(p patience) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	switch p.when {
	case "before":
		cancel()
	case "at a request":
		p.at.arm(trap{left: p.left, do: cancel})
	case "at a time":
		timer := time.AfterFunc(p.time, cancel)
		return ctx, func() { timer.Stop(); cancel() }
	}
	return ctx, cancel
}

// hang is how long operations may take at most, together.
const hang = 3 * time.Minute

// run lets all callers go and waits for them.
func (w *world) run(rt *rapid.T, ctx context.Context, callers []*caller) {
	var wg sync.WaitGroup
	for _, c := range callers {
		wg.Go(func() { c.run(ctx) })
	}
	if w.neighbour {
		wg.Go(w.disturb)
		w.neighbour = false
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	watchdog := time.NewTimer(hang)
	defer watchdog.Stop()
	select {
	case <-done:
	case <-watchdog.C:
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
		w.fatalf(rt, "operations do not end")
	}
}

// run does the caller's operations.
func (c *caller) run(ctx context.Context) {
	o := c.ops[0]
	switch {
	case c.batch:
		c.runBatch(ctx)
		return
	case o.segs != nil && o.write:
		o.n, o.err = o.f.WriteVec(ctx, o.segs, o.off)
	case o.segs != nil:
		o.n, o.err = o.f.ReadVec(ctx, o.segs, o.off)
	case o.same:
		var n int64
		n, o.err = o.f.WriteSame(ctx, o.mem.p, o.off, int64(len(o.data)))
		o.n = int(n)
	case o.write:
		o.n, o.err = o.f.WriteAtContext(ctx, o.mem.p, o.off)
	default:
		o.n, o.err = o.f.ReadAtContext(ctx, o.mem.p, o.off)
	}
	o.over = true
}

func (c *caller) runBatch(ctx context.Context) {
	var syncing sync.WaitGroup
	defer syncing.Wait() // Close lets it go on
	b := c.ops[0].k.c.NewBatch(len(c.ops))
	defer b.Close()
	for i, o := range c.ops {
		var err error
		switch tag := uint64(i); {
		case o.same:
			err = b.WriteSame(o.f, o.mem.p, o.off, int64(len(o.data)), tag)
		case o.write:
			err = b.WriteAt(o.f, o.mem.p, o.off, tag)
		default:
			err = b.ReadAt(o.f, o.mem.p, o.off, tag)
		}
		if err != nil {
			o.over, o.err = true, err
		}
	}
	err := b.Submit(ctx)
	if c.syncs != nil {
		both := ctx
		syncing.Go(func() { c.synced = c.syncs.Sync(both) })
	}
	for b.Pending() > 0 {
		if err != nil {
			if c.leaves {
				return
			}
			ctx = context.Background()
		}
		var done []lwio.Completion
		done, err = b.Wait(ctx, 1)
		for _, d := range done {
			o := c.ops[d.Tag]
			o.over, o.n, o.err = true, d.N, d.Err
		}
	}
}

// disturb is another client that wants credits, and leaves.
func (w *world) disturb() {
	patience := time.Minute
	if w.impatient {
		patience /= 200
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := lwio.Dial(ctx, w.srv.URL(), nil)
	if err != nil {
		return // a trap of the server's side got it
	}
	defer c.Close()
	f, err := c.Open(ctx, fileName)
	if err != nil {
		return
	}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			p := make([]byte, 100)
			for range 8 {
				_, _ = f.ReadAtContext(ctx, p, int64(i*len(p))) // the data is not checked
			}
		})
	}
	wg.Wait()
}

// judge checks the results of the operations against the model, and their errors.
func (w *world) judge(rt *rapid.T, ops []*operation, left bool) {
	var writes []filemodel.Write
	for _, o := range ops {
		o.excuse(rt, left)
		if o.write {
			writes = append(writes, o.written())
		}
	}
	for _, o := range ops {
		if !o.write && o.over {
			r := filemodel.Read{Off: o.off, Data: slices.Clone(o.mem.p[:o.n]), EOF: errors.Is(o.err, io.EOF)}
			if err := w.file.Check(r, writes...); err != nil {
				w.fatalf(rt, "%v: %v%s", o, err, w.suspects(r))
			}
		}
	}
	var wrote []*client
	for _, k := range w.clients {
		if slices.ContainsFunc(ops, func(o *operation) bool { return o.k == k && o.write && o.n > 0 }) {
			wrote = append(wrote, k)
		}
	}
	// A client's fence comes before its own writes, not before those of others.
	if len(wrote) == 1 {
		w.fenced(wrote[0])
	}
	w.file.Apply(writes...)
	for _, k := range wrote {
		w.fenced(k)
	}
	w.history = append(w.history, writes...)
}

// suspects lists, for an error message, the writes whose data the read begins with.
func (w *world) suspects(r filemodel.Read) (list string) {
	first := r.Data[:min(len(r.Data), 2)]
	for i, x := range w.history {
		if at := r.Off - x.Off; at >= 0 && at < int64(len(x.Data)) && bytes.HasPrefix(x.Data[at:], first) {
			list += fmt.Sprintf("; it begins as write %d, of %d bytes at %d", i, len(x.Data), x.Off)
		}
	}
	return list
}

// fenced notes that a write of the client was done: earlier writes on connections that were lost
// before the group take no effect any more. A connection that was lost during the group may have
// carried that write too.
func (w *world) fenced(k *client) {
	w.file.Settle(func(o any) bool {
		x := o.(*owner)
		return x.client == k && (x.f == k.f || x.f == k.second) && (x.broken && x.lost <= k.before || !x.smb && x.lost < k.before)
	})
}

// synced notes that all earlier writes and changes of size by f are over, on all connections.
func (w *world) synced(f *lwio.File) {
	w.file.Settle(func(o any) bool { return o.(*owner).f == f })
}

// judgeSync judges the Sync of a batch after Submit. If it succeeded, the writes of
// earlier groups are over.
func (w *world) judgeSync(rt *rapid.T, c *caller, left bool) {
	switch {
	case c.syncs == nil:
	case c.synced == nil:
		w.file.Settle(func(o any) bool { return o.(*owner).f == c.syncs && o.(*owner).group < w.group })
	case !w.impatient && !(left && errors.Is(c.synced, context.Canceled)):
		w.fatalf(rt, "%s: sync after Submit: %v", c.ops[0].k, c.synced)
	}
}

// written is the write for the model.
func (o *operation) written() filemodel.Write {
	w := filemodel.Write{Off: o.off, Data: o.data, Done: o.n}
	switch {
	case o.over && o.err == nil:
	case !o.over || errors.Is(o.err, lwio.ErrUncertain):
		w.Rest, w.Owner = filemodel.Late, o.late()
	case errors.Is(o.err, context.Canceled) && len(o.data) <= 4096: // one message, that was not sent
	case errors.Is(o.err, lwio.ErrLocked) && len(o.data) <= 4096: // the write was refused
	default:
		w.Rest = filemodel.Maybe // the bytes after a failure may be written too
	}
	return w
}

// late is the owner of a write that the client has just given up. A call that ended because of its
// caller may have been replayed, and be in flight on the connection that replaced the lost one.
func (o *operation) late() *owner {
	k := o.k
	left := errors.Is(o.err, context.Canceled) || errors.Is(o.err, os.ErrDeadlineExceeded)
	smb := k.cfg.SMBOnly || k.second != nil || k.cfg.ReconnectTimeout < patient && k.lost > 0
	return &owner{client: k, f: o.f, group: k.w.group, smb: smb,
		broken: errors.Is(o.err, net.ErrClosed) && !left && k.lost > k.before, lost: k.lost}
}

// excuse fails the test if an operation failed without a reason.
func (o *operation) excuse(rt *rapid.T, left bool) {
	barred, perhaps := o.k.w.lockedFor(func(h *heldLock) bool { return h.bars(o) })
	switch {
	case o.over && o.err == nil && barred:
		o.k.w.fatalf(rt, "%v, though that is locked", o)
	case o.over && errors.Is(o.err, lwio.ErrLocked) && perhaps:
		return
	case !o.over && (left || o.k.w.impatient):
		return
	case o.over && o.err == nil && o.n == o.size():
		return
	case o.over && o.err == io.EOF && !o.write && o.n < o.size(): //nolint:errorlint // the contract says bare
		return
	case o.over && o.err != nil && o.n <= o.size() && o.k.excuses(o.err, left):
		return
	}
	o.k.w.fatalf(rt, "there is no reason for: %v; callers left: %v", o, left)
}

// excuses reports whether there was a reason for an error. A lost connection is none if there is
// time to replace it.
func (k *client) excuses(err error, left bool) bool {
	broke := k.lost > k.before
	switch {
	case errors.Is(err, lwio.ErrProtocol):
		return false
	case errors.Is(err, lwio.ErrUncertain) && k.lostSMB():
		return true
	case k.w.impatient:
		return true
	case errors.Is(err, context.Canceled):
		return left
	case errors.Is(err, lwio.ErrBufferBusy):
		return left || broke
	case k.cfg.ReconnectTimeout == patient:
		// The next connection may have taken the other file, so that a write cannot be sent again.
		return k.second != nil && broke && errors.Is(err, lwio.ErrUncertain)
	case errors.Is(err, lwio.ErrNoRDMA):
		return k.cfg.RequireRDMA && k.lost > 0
	case errors.Is(err, net.ErrClosed):
		return k.cfg.RequireRDMA && k.lost > 0 || broke && errors.Is(err, lwio.ErrUncertain)
	}
	return false
}

// truncate sets the size.
func (w *world) truncate(rt *rapid.T) {
	k := w.some(rt)
	size := int64(rapid.OneOf(rapid.IntRange(0, 5000), rapid.IntRange(0, 2*farthest)).Draw(rt, "size"))
	err := w.ordered(rt, k, fmt.Sprint("truncate to ", size), func(ctx context.Context) error { return k.f.Truncate(ctx, size) })
	if err == nil {
		w.fenced(k)
		w.synced(k.f)
	}
	w.file.Truncate(size, err == nil, filemodel.Late, &owner{client: k, f: k.f, group: w.group, smb: true})
}

// sync waits for all earlier writes.
func (w *world) sync(rt *rapid.T) {
	k := w.some(rt)
	if f := k.file(rt); w.ordered(rt, k, "sync", f.Sync) == nil {
		w.synced(f)
	}
}

// ordered makes a call that comes after all writes, with a context that may end.
func (w *world) ordered(rt *rapid.T, k *client, name string, call func(ctx context.Context) error) error {
	ctx, cancel := w.start(w.patience(rt, ""))
	defer cancel()
	st := k.c.Stats()
	k.before, k.logons = st.Lost, st.SMBReconnects
	err := call(ctx)
	k.lost = k.c.Stats().Lost
	w.logf(rt, "%s: %s: %v", k, name, err)
	unknown := errors.Is(err, lwio.ErrUncertain) && k.lostSMB()
	if err != nil && !unknown && !w.impatient && !(errors.Is(err, context.Canceled) && ctx.Err() != nil) {
		w.fatalf(rt, "%s: there is no reason for that", k)
	}
	return err
}

// stat asks for the size.
func (w *world) stat(rt *rapid.T) {
	k := w.some(rt)
	info, err := k.f.Stat(context.Background())
	if err == nil {
		w.logf(rt, "%s: size %d", k, info.Size())
		err = w.file.CheckSize(info.Size())
	} else if w.impatient {
		return
	}
	if err != nil {
		w.fatalf(rt, "%s: stat: %v", k, err)
	}
}

// memory is the memory of an operation.
type memory struct {
	p      []byte
	around []byte // p and its margins, nil in a Buffer
	was    []byte // the content of around when it was checked last
}

const margin = 16

// memory takes n bytes for an operation: part of the client's Buffer, or not.
func (k *client) memory(rt *rapid.T, n int) *memory {
	if !rapid.Bool().Draw(rt, "buffer") {
		m := &memory{around: bytes.Repeat([]byte{0xEE}, n+2*margin)}
		m.p = m.around[margin:][:n:n]
		k.w.memories = append(k.w.memories, m)
		return m
	}
	return &memory{p: k.take(n)}
}

// take takes n bytes of the client's Buffer that no other operation has.
func (k *client) take(n int) []byte {
	const size = 256 << 10
	if k.buf == nil {
		if b, err := k.c.Alloc(context.Background(), size); err == nil {
			k.buf = b
		}
	}
	if k.buf == nil || k.used+n > size {
		return make([]byte, n)
	}
	k.used += n
	return k.buf.Bytes()[k.used-n:][:n:n]
}

// renew sets aside a Buffer that may still be in use.
func (k *client) renew() {
	k.used = 0
	if k.buf != nil && k.buf.Busy() {
		k.spoiled, k.buf = append(k.spoiled, k.buf), nil
	}
}

// freeBuffers closes all Buffers.
func (k *client) freeBuffers() {
	for _, b := range append(k.spoiled, k.buf) {
		if b != nil {
			b.Close()
		}
	}
	k.spoiled, k.buf, k.used = nil, nil, 0
}

// untouched checks that memory of calls that have returned, and its margins, do not change. It
// overwrites the memory at the first check, as no operation may read it any more.
func (w *world) untouched(rt *rapid.T) {
	for _, m := range w.memories {
		if m.was == nil {
			for _, side := range [][]byte{m.around[:margin], m.around[margin+len(m.p):]} {
				if !bytes.Equal(side, bytes.Repeat([]byte{0xEE}, margin)) {
					w.fatalf(rt, "memory beside the %d bytes of a call changed", len(m.p))
				}
			}
			for i := range m.p {
				m.p[i] ^= 0x55
			}
			m.was = slices.Clone(m.around)
		} else if !bytes.Equal(m.around, m.was) {
			w.fatalf(rt, "the %d bytes of a call changed after it had returned", len(m.p))
		}
	}
	if n := len(w.memories); n > 16 {
		w.memories = slices.Clone(w.memories[n-16:])
	}
}
