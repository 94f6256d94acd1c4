package server

import (
	"lwio/internal/host"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/vfs"
)

// Where the provider can read a file straight into the client's memory, a READ of
// what is in the page cache needs no buffer here and no copy:
//
//	received ─► write from the file, at once ──────────────────► outbox ─► posted ─► free
//	                  │                                             ▲
//	                  ├─ long, and the client's memory not shared ─► its result
//	                  └─ not in the cache, or shorter than asked for ─► by a buffer
//
// The answer to one that came alone is posted together with the write, not by the outbox.
//
// Client memory that is not shared is reached in pieces, still without the buffer.
//
// The source of a file is open as long as the file is in the connection's table or
// an operation holds it.

// attach makes the file a source for the adapter, if both can do that. The caller
// holds a reference on the open.
func (f *fid) attach(c *conn, open *vfs.Open) {
	file := open.File()
	if !f.canRead || file == nil || !c.f.info.Caps.Has(rdma.CapDirectFile) {
		return
	}
	source, err := c.f.adapter.RegisterFile(c.ctx, file)
	if err != nil {
		c.log.Debug("lwio: a file is read by buffers", "error", err)
		return
	}
	f.source = source
}

// retireLocked is called when f has left the table: it takes no new operations. The last
// that holds it ends its use: who names the file again meanwhile is in the same line.
func (f *fid) retireLocked(c *conn) {
	f.retired = true
	if f.held == 0 {
		f.detach(c)
	}
}

// unholdLocked gives back what o holds of its file.
func (f *fid) unholdLocked(c *conn) {
	if f.held--; f.held == 0 && f.retired {
		f.detach(c)
	}
	f.open.Release()
}

// detach undoes join and attach.
func (f *fid) detach(c *conn) {
	f.part(c)
	if f.source != nil {
		f.source.Close()
		f.source = nil
	}
}

// streamSize is from how many bytes on a write from a file is worth more than one
// from a buffer, though the provider copies it in pieces: they stay in the CPU's cache.
const streamSize = 64 << 10

// direct tells whether a READ can be answered by a write from the file. If so, the write
// is posted with those that follow it, by postDirects at the latest.
//
// Source: [LWIO §Read] [OP-60] [OP-92i]
func (c *conn) direct(o *op) bool {
	n := int(o.h.Length)
	if o.file.source == nil || o.h.Opcode != wire.OpRead || n > c.peerWindow || !o.file.reaches(o.h.Offset+uint64(n)) ||
		!o.file.open.MayRead(int64(o.h.Offset), n) {
		return false
	}
	c.directs = append(c.directs, o)
	r := c.straight.next()
	o.fileWrite(r)
	r.Flags = rdma.FlagOnlyIfCached | rdma.FlagSilentSuccess
	if len(c.directs) == maxDirects || n >= streamSize {
		c.postDirects()
	}
	return true
}

// maxDirects is how many writes from files are posted together.
const maxDirects = 16

// postDirects does the writes that direct has collected: at once, which takes no slot, if
// all of it is in the page cache, or in pieces as there is room on the way to the client.
// The loop does not wait.
func (c *conn) postDirects() {
	for done := 0; done < len(c.directs); {
		n, err := c.qp.Post(c.straight.reqs[done:])
		for _, o := range c.directs[done : done+n] {
			c.placed(o, int(o.h.Length))
		}
		if done += n; err == nil {
			continue
		}
		o := c.directs[done]
		done++
		c.readElsewise(o)
	}
	c.forgetDirects()
}

// forgetDirects is called when all of them are posted, or go elsewise.
func (c *conn) forgetDirects() {
	clear(c.straight.reqs)
	c.directs = c.directs[:0]
	c.straight.empty()
}

// readElsewise answers a READ that could not be answered at once.
func (c *conn) readElsewise(o *op) {
	if int(o.h.Length) < streamSize || !c.cached(o) || !c.writeFile(o) {
		c.readByBuffer(o)
	}
}

// answerDirect answers o, the only READ that direct has collected, by data and answer that
// are posted together: the client has both before the books are made. It does nothing if
// somebody else posts, or something is to be posted first.
//
// Source: [LWIO §I/O Processing] [OP-66b] [OP-93d]
func (c *conn) answerDirect(o *op) {
	c.mu.Lock()
	if c.pumping || c.dead || c.slots+c.freed == 0 || !c.outbox.empty() {
		c.mu.Unlock()
		return // flush sees to what is freed
	}
	c.slots, c.freed = c.slots+c.freed, 0
	c.pumping = true // and what others answer meanwhile comes behind
	o.status, o.info = ntstatus.Success, o.h.Length
	c.fillStatus(&c.straight, o) // behind the data, which takes no slot
	c.mu.Unlock()
	n, err := c.postDirect(o)
	c.forgetDirects()
	if n > 0 {
		c.tally.add(c.e, c, o.file, o.info, 1)
		c.tally.delay(o)
	}
	c.mu.Lock()
	c.pumping = false
	switch {
	case n == 0:
		c.slots++
	case err != nil:
		c.dead = true
	default:
		c.posted.push(o)
		c.answeredLocked(o)
		c.unholdLocked(o)
	}
	c.postOutbox()
	if n == 0 {
		c.readElsewise(o)
	}
	c.tally.empty(c.e, c)
}

// postDirect posts data and answer of o, and its receive, and tells how much of the first
// two. Unless that is nothing, an error ends the connection. The client may use the receive
// as soon as it has the answer: until that is posted, there is the one ahead.
//
// Source: [OP-66b]
func (c *conn) postDirect(o *op) (n int, err error) {
	p := &c.straight
	p.answers = 1
	p.signal(idProgress, 0)
	if n, err = c.qp.Post(p.reqs); n == 0 {
		return 0, err
	}
	c.owing.Add(1)
	if err == nil {
		p.receive(c, o.recv)
		o.recv = none
		err = p.postReceives(c)
	}
	if err != nil {
		c.cut(err)
	}
	return n, err
}

// fileWrite makes an empty request the write from the file that answers o.
func (o *op) fileWrite(r *rdma.Request) {
	r.Op, r.ID = rdma.OpWrite, resultID(idDirect, 1, 0, o.index)
	r.Remote.Addr, r.Remote.Token = o.h.DataVa, rdma.RemoteToken(o.h.DataMh)
	r.File, r.FileOffset, r.FileLength = o.file.source, int64(o.h.Offset), int(o.h.Length)
}

// cached tells whether what o reads is in the page cache. Where the kernel does not say
// so it guesses from the ends; if that is wrong, later answers of this connection wait
// for the disk.
func (c *conn) cached(o *op) bool {
	if cached, known := host.PagesCached(o.file.source.File(), int64(o.h.Offset), int(o.h.Length)); known {
		return cached
	}
	for _, at := range [...]uint64{o.h.Offset, o.h.Offset + uint64(o.h.Length) - 1} {
		if _, ok, err := o.file.open.ReadCached(c.peek[:], int64(at)); !ok || err != nil {
			return false
		}
	}
	return true
}

// writeFile posts the write.
func (c *conn) writeFile(o *op) bool {
	if !c.takeSlot() {
		return false
	}
	c.request[0] = rdma.Request{}
	o.fileWrite(&c.request[0])
	c.owing.Add(1)
	if _, err := c.qp.Post(c.request[:]); err != nil {
		c.owing.Add(-1)
		c.freed++
		return false
	}
	return true
}

// reaches reports whether the file has that many bytes: what is behind its end must
// not be written.
//
// Source: [OP-92a]
func (f *fid) reaches(end uint64) bool {
	if end > uint64(f.size) {
		if info, err := f.source.File().Stat(); err == nil {
			f.size = info.Size()
		}
	}
	return end <= uint64(f.size)
}

// takeSlot takes a slot of the initiator queue.
func (c *conn) takeSlot() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slots == 0 {
		return false
	}
	c.slots--
	return true
}

// placed goes on when n bytes of the file are in the client's memory. Where that is
// not all, as the file has become shorter, the way by a buffer finds out what there
// is; zeros stand in the place of the rest.
//
// Source: [OP-92i]
func (c *conn) placed(o *op, n int) {
	if n < int(o.h.Length) {
		o.file.size = 0
		c.readByBuffer(o)
		return
	}
	o.status, o.info = ntstatus.Success, o.h.Length
	c.tally.add(c.e, c, o.file, o.info, 1)
	c.answer(o)
}
