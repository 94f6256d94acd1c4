package server

import (
	"lwio/internal/host"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/vfs"
)

const (
	// maxDirect is the number of RDMA writes from files that are posted together.
	maxDirect = 16
	// longRead is the least size, in bytes, of an RDMA write from a file that is faster than a
	// buffer though the provider copies it in pieces. The pieces stay in the cache of the CPU.
	longRead = 64 << 10
)

// attach makes the file a source of RDMA writes, if the adapter and the backend support that. The
// caller holds a reference on the open. The end of the registration closes the source.
func (f *registeredFile) attach(c *conn, open *vfs.Open) {
	file := open.File()
	if !f.canRead || file == nil || !c.fabric.info.Caps.Has(rdma.CapDirectFile) || c.sealing.on() {
		return
	}
	source, err := c.fabric.adapter.RegisterFile(c.ctx, file)
	if err != nil {
		c.log.Debug("lwio: file is read by buffers", "error", err)
		return
	}
	f.source = source
}

// reaches reports whether the file has at least end bytes. An RDMA write must not read beyond the
// end of the file.
//
// Source: [OP-92a]
func (f *registeredFile) reaches(end uint64) bool {
	if end > uint64(f.size) {
		if info, err := f.source.File().Stat(); err == nil {
			f.size = info.Size()
		}
	}
	return end <= uint64(f.size)
}

// addDirect collects a READ that an RDMA write from the file can answer; false for other READs. post
// posts the collected READs together.
//
// Source: [LWIO §Read] [OP-60] [OP-92i]
func (r *reader) addDirect(o *op) bool {
	n := int(o.h.Length)
	if o.file.source == nil || o.h.Opcode != wire.OpRead || n > r.c.auth.peerWindow || !o.file.reaches(o.h.Offset+uint64(n)) ||
		!o.file.open.MayRead(int64(o.h.Offset), n) {
		return false
	}
	r.direct = append(r.direct, o)
	w := r.writes.next()
	o.fileWrite(w)
	w.Flags = rdma.FlagOnlyIfCached | rdma.FlagSilentSuccess
	if len(r.direct) == maxDirect || n >= longRead {
		r.post()
	}
	return true
}

// fileWrite makes an empty request the RDMA write from the file that answers o.
func (o *op) fileWrite(w *rdma.Request) {
	w.Op, w.ID = rdma.OpWrite, requestID(idDirect, 1, 0, o.index)
	w.Remote.Addr, w.Remote.Token = o.h.DataVa, rdma.RemoteToken(o.h.DataMh)
	w.File, w.FileOffset, w.FileLength = o.file.source, int64(o.h.Offset), int(o.h.Length)
}

// waiting returns the number of READs that are not posted yet.
func (r *reader) waiting() int { return len(r.direct) }

// flush posts the collected READs. It posts a single READ together with its answer.
func (r *reader) flush() {
	if len(r.direct) == 1 && r.c.ready.ops.empty() {
		r.postSingle(r.direct[0])
	}
	r.post()
}

// post posts the RDMA writes of the collected READs. A write completes at once and takes no entry, if
// all its data is in the page cache and the client's memory is shared. Other READs fall back.
func (r *reader) post() {
	for done := 0; done < len(r.direct); {
		n, err := r.c.qp.Post(r.writes.reqs[done:])
		for _, o := range r.direct[done : done+n] {
			r.placed(o, int(o.h.Length))
		}
		if done += n; err == nil {
			continue
		}
		o := r.direct[done]
		done++
		r.fallBack(o)
	}
	r.forget()
}

// forget empties the collection.
func (r *reader) forget() {
	clear(r.writes.reqs)
	r.direct = r.direct[:0]
	r.writes.empty()
}

// fallBack answers a READ that could not be posted.
func (r *reader) fallBack(o *op) {
	if int(o.h.Length) < longRead || !r.cached(o) || !r.postLong(o) {
		r.readByBuffer(o)
	}
}

// postSingle posts the data and the answer of o, the only collected READ, together. The client has
// both before the server updates its own state. postSingle does nothing while another goroutine
// posts, or if the outbox is not empty.
//
// Source: [LWIO §I/O Processing] [OP-66b] [OP-93d]
func (r *reader) postSingle(o *op) {
	c := r.c
	status, info := o.status, o.info
	o.status, o.info = ntstatus.Success, o.h.Length
	if !c.send.claim(&r.writes, o, c.ready.freed) {
		o.status, o.info = status, info
		return
	}
	c.ready.freed = 0
	n, err := c.send.postClaimed(&r.writes, o)
	r.forget()
	if n > 0 {
		c.tally.add(c.engine, c, o.file, o.info, 1)
		c.tally.delay(o)
		o.complete()
	}
	c.send.unclaim(o, n, err)
	if n == 0 {
		r.fallBack(o)
	}
	c.tally.empty(c.engine, c)
}

// cached reports whether the data of o is in the page cache. If the kernel does not report that,
// cached guesses from the first and the last byte. After a wrong guess, later answers of this
// connection wait for the disk.
func (r *reader) cached(o *op) bool {
	if cached, known := host.PagesCached(o.file.source.File(), int64(o.h.Offset), int(o.h.Length)); known {
		return cached
	}
	for _, at := range [...]uint64{o.h.Offset, o.h.Offset + uint64(o.h.Length) - 1} {
		if _, ok, err := o.file.open.ReadCached(r.probe[:], int64(at)); !ok || err != nil {
			return false
		}
	}
	return true
}

// postLong posts the RDMA write from the file that answers o. The write takes an entry and has a
// completion. postLong returns false if no entry is free or the post fails.
func (r *reader) postLong(o *op) bool {
	c := r.c
	if !c.send.takeEntry() {
		return false
	}
	r.long[0] = rdma.Request{}
	o.fileWrite(&r.long[0])
	c.send.inUse.Add(1)
	if _, err := c.qp.Post(r.long[:]); err != nil {
		c.send.inUse.Add(-1)
		c.ready.freed++
		return false
	}
	return true
}

// placed answers o after the provider has written n bytes of the file into the client's memory. If n
// is less than the length, the file has become shorter: then a buffer reads the data again. The
// client's memory behind the n bytes holds zeros.
//
// Source: [OP-92i]
func (r *reader) placed(o *op, n int) {
	c := r.c
	if n < int(o.h.Length) {
		o.file.size = 0
		r.readByBuffer(o)
		return
	}
	o.status, o.info = ntstatus.Success, o.h.Length
	c.tally.add(c.engine, c, o.file, o.info, 1)
	c.answer(o)
}
