package rdmatest

import (
	"os"
	"path/filepath"

	"lwio/rdma"
)

var fileCases = []Case{
	{Name: "file/sizes", Source: "[OP-92i]", Needs: rdma.CapFileSource, run: fileSizes},
	{Name: "file/end", Source: "[OP-92i]", Needs: rdma.CapFileSource, run: fileEnds},
	{Name: "file/order", Source: "[ND QueuePair §Ordering]", Needs: rdma.CapFileSource, run: fileOrder},
	{Name: "file/only-if-cached", Source: "[OP-92i]", Needs: rdma.CapFileSource, run: fileCached},
	{Name: "file/only-if-whole", Source: "[OP-92i]", Needs: rdma.CapFileSource, run: fileWhole},
	{Name: "file/refused", Source: "[ND Status codes]", Needs: rdma.CapFileSource, run: fileRefused},
}

// file makes a file of n bytes. It returns the open file and its content.
func (r *rig) file(n int) (*os.File, []byte) {
	r.Helper()
	data := make([]byte, n)
	fill(data)
	f, err := os.Create(filepath.Join(r.TempDir(), "source"))
	r.ok("create file", err)
	r.Cleanup(func() { f.Close() })
	_, err = f.Write(data)
	r.ok("write file", err)
	return f, data
}

// source registers a file for the rest of the case.
func (r *rig) source(a rdma.Adapter, f *os.File) rdma.FileSource {
	r.Helper()
	s, err := a.RegisterFile(r.ctx(), f)
	r.ok("register file", err)
	r.closeLater("file source", s)
	if s.File() != f {
		r.Error("the source is another file")
	}
	return s
}

// fromFile writes n bytes of a file to the peer. real is the number of bytes that the
// file has there.
func (e *end) fromFile(peer *end, s rdma.FileSource, off int64, n, to, real int) {
	e.r.Helper()
	e.post(rdma.Request{Op: rdma.OpWrite, ID: 3, File: s, FileOffset: off, FileLength: n, Remote: peer.at(to)})
	if res := e.sent(); res.Status != rdma.StatusSuccess || res.ID != 3 || res.Op != rdma.OpWrite || res.Bytes != real {
		e.r.Fatalf("write of %d bytes of a file at %d: %+v, want %d bytes", n, off, res, real)
	}
	e.deliver(peer)
}

func fileSizes(r *rig) {
	const room = 2 << 20
	active, passive := r.pair(shape{memory: room})
	f, data := r.file(room)
	for _, ends := range [][2]*end{{active, passive}, {passive, active}} {
		from, to := ends[0], ends[1]
		s := r.source(from.adapter, f)
		for _, n := range []int{0, 1, 7, 8, 255, 4096, 65537, 300_000, room - 3} {
			clear(to.mem)
			from.fromFile(to, s, int64(room-n), n, 3, n)
			if !same(to.mem[3:3+n], data[room-n:]) || !zero(to.mem[:3]) || !zero(to.mem[3+n:]) {
				r.Fatalf("%d bytes of the file arrive changed", n)
			}
		}
		clear(to.mem)
	}
}

// fileEnds checks that bytes past the end of the file are zero and are not counted, also
// if the file was longer before.
func fileEnds(r *rig) {
	active, passive := r.pair(shape{memory: 256 << 10})
	f, data := r.file(200_000)
	s := r.source(active.adapter, f)
	for _, c := range []struct{ size, off, n, real int }{
		{200_000, 199_000, 2000, 1000},
		{200_000, 0, 250_000, 200_000},
		{200_000, 200_000, 100, 0},
		{200_000, 1 << 40, 100, 0},
		{100_001, 0, 200_000, 100_001},
		{5, 0, 200_000, 5},
		{0, 0, 200_000, 0},
	} {
		r.ok("truncate", f.Truncate(int64(c.size)))
		for i := range passive.mem {
			passive.mem[i] = 0xFF
		}
		active.fromFile(passive, s, int64(c.off), c.n, 0, c.real)
		if c.real > 0 && !same(passive.mem[:c.real], data[c.off:c.off+c.real]) {
			r.Errorf("%+v: the bytes that are there are wrong", c)
		}
		if !zero(passive.mem[c.real:c.n]) || !all(passive.mem[c.n:], 0xFF) {
			r.Errorf("%+v: not zeros to the end, and no further", c)
		}
	}
}

// fileOrder writes from files and from memory in one stream, and then sends a message.
func fileOrder(r *rig) {
	const part = 20_000
	active, passive := r.pair(shape{memory: 8 * part, depth: 32})
	fill(active.mem)
	f, data := r.file(part)
	s := r.source(active.adapter, f)
	for i := range 4 {
		active.post(
			rdma.Request{Op: rdma.OpWrite, Flags: rdma.FlagSilentSuccess, File: s, FileLength: part, Remote: passive.at(2 * i * part)},
			rdma.Request{Op: rdma.OpWrite, Flags: rdma.FlagSilentSuccess, SGL: active.sge(0, part), Remote: passive.at((2*i + 1) * part)},
			rdma.Request{Op: rdma.OpWrite, Flags: rdma.FlagSilentSuccess, File: s, FileOffset: 8, FileLength: 8, Remote: passive.at(2 * i * part)},
		)
	}
	active.deliver(passive)
	for i := range 4 {
		got := passive.mem[2*i*part : 2*(i+1)*part]
		if !same(got[:8], data[8:16]) || !same(got[8:part], data[8:]) || !same(got[part:], active.mem[:part]) {
			r.Fatalf("part %d is wrong", i)
		}
	}
}

// fileCached checks that a write of cached pages is taken. If the provider cannot
// determine whether they are cached, it refuses the write without an effect.
func fileCached(r *rig) {
	active, passive := r.pair(shape{memory: 256 << 10})
	f, data := r.file(100_000)
	s := r.source(active.adapter, f)
	for range 2 * active.shape.depth {
		req := rdma.Request{Op: rdma.OpWrite, Flags: rdma.FlagOnlyIfCached, File: s, FileLength: 120_000, Remote: passive.at(0)}
		n, err := active.qp.Post([]rdma.Request{req})
		if n == 0 {
			r.fails("write of uncached pages", err, rdma.StatusDeviceBusy)
			r.empty("results of a refused write", active.icq)
			active.fromFile(passive, s, 0, 120_000, 0, 100_000)
		} else if res := active.sent(); res.Status != rdma.StatusSuccess || res.Bytes != 100_000 {
			r.Fatalf("write: %+v", res)
		}
	}
	active.deliver(passive)
	if !same(passive.mem[:100_000], data) {
		r.Error("the file arrives changed")
	}
}

// fileWhole checks that a silent write of cached pages is taken as a whole or refused,
// and that it leaves no result and no slot. Bytes past the end of the file are refused.
func fileWhole(r *rig) {
	active, passive := r.pair(shape{memory: 256 << 10})
	f, data := r.file(100_000)
	s := r.source(active.adapter, f)
	post := func(off int64, n int) bool {
		taken, err := active.qp.Post([]rdma.Request{{
			Op: rdma.OpWrite, Flags: rdma.FlagOnlyIfCached | rdma.FlagSilentSuccess,
			File: s, FileOffset: off, FileLength: n, Remote: passive.at(0),
		}})
		if taken == 0 {
			r.fails("write of uncached pages", err, rdma.StatusDeviceBusy)
		}
		return taken == 1
	}
	for range 2 * active.shape.depth {
		if post(1, 100_000) || post(99_999, 2) || post(200_000, 8) {
			r.Fatal("more than the file has is taken")
		}
		clear(passive.mem)
		if !post(50_000, 50_000) {
			active.fromFile(passive, s, 50_000, 50_000, 0, 50_000)
		}
		active.deliver(passive)
		if !same(passive.mem[:50_000], data[50_000:]) {
			r.Fatal("the file arrives changed")
		}
	}
	r.empty("results of silent writes", active.icq)
}

func fileRefused(r *rig) {
	active, passive := r.pair(shape{})
	f, _ := r.file(100)
	s := r.source(active.adapter, f)
	if _, err := active.adapter.RegisterFile(r.ctx(), nil); err == nil {
		r.Error("no file is registered")
	}
	dir, err := os.Open(r.TempDir())
	r.ok("open directory", err)
	r.Cleanup(func() { dir.Close() })
	if _, err := active.adapter.RegisterFile(r.ctx(), dir); err == nil {
		r.Error("a directory is registered")
	}
	closed := r.source(active.adapter, f)
	r.closeNow("file source", closed)
	foreign := r.source(passive.adapter, f)
	for what, c := range map[string]struct {
		req    rdma.Request
		status rdma.Status
	}{
		"another adapter's source":     {rdma.Request{File: foreign, FileLength: 8}, rdma.StatusInvalidParameter},
		"an offset below 0":            {rdma.Request{File: s, FileOffset: -1, FileLength: 8}, rdma.StatusInvalidParameter},
		"negative length":              {rdma.Request{File: s, FileLength: -1}, rdma.StatusInvalidParameter},
		"too much":                     {rdma.Request{File: s, FileLength: int(active.adapter.Info().MaxTransferLength) + 1}, rdma.StatusBufferOverflow},
		"inline data and a file":       {rdma.Request{File: s, FileLength: 8, Flags: rdma.FlagInline}, rdma.StatusInvalidParameterMix},
		"only cached, without a file":  {rdma.Request{Flags: rdma.FlagOnlyIfCached}, rdma.StatusInvalidParameterMix},
		"a source that is closed":      {rdma.Request{File: closed, FileLength: 8}, rdma.StatusAccessViolation},
		"closed, and only when cached": {rdma.Request{File: closed, FileLength: 8, Flags: rdma.FlagOnlyIfCached}, rdma.StatusAccessViolation},
	} {
		c.req.Op, c.req.Remote = rdma.OpWrite, passive.at(0)
		n, err := active.qp.Post([]rdma.Request{c.req})
		if n != 0 {
			r.Errorf("%s: taken", what)
		}
		want := []rdma.Status{c.status}
		if c.status == rdma.StatusInvalidParameter || c.status == rdma.StatusInvalidParameterMix {
			// The seam leaves the choice among these statuses to the provider.
			want = []rdma.Status{rdma.StatusInvalidParameter, rdma.StatusInvalidParameterMix, rdma.StatusAccessViolation}
		}
		r.fails(what, err, want...)
	}
	active.deliver(passive)
}
