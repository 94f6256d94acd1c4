package server

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/vfs"
)

// soleFile returns the only registered file.
func (v *env) soleFile() (*conn, *registeredFile) {
	v.t.Helper()
	c := v.conn()
	c.files.mu.Lock()
	defer c.files.mu.Unlock()
	for _, f := range c.files.byID {
		return c, f
	}
	v.t.Fatal("no file is registered")
	return nil, nil
}

// Over shared memory a READ goes straight from the file into the client's memory, unless it
// reaches behind the end; and only bytes that were read are written there.
//
// Source: [LWIO §Read] [OP-92a] [OP-92i]
func TestDirectReadWritesOnlyReadBytes(t *testing.T) {
	v := newEnv(t, envConfig{on: "shm"})
	c := v.client()
	data := content(200 << 10)
	fid := c.register(v.file("a", data))
	name := filepath.Join(v.dir, "a")
	in := c.in.Bytes()
	for _, s := range []struct {
		what      string
		do        func() error
		off, n    int
		want      int
		direct    bool
		fill      byte // content behind the bytes read
		endOfFile bool
	}{
		{what: "all", n: len(data), want: len(data), fill: 0xEE}, // more than the client's window
		{what: "some", off: 5, n: 60 << 10, want: 60 << 10, direct: true, fill: 0xEE},
		{what: "one byte", off: len(data) - 1, n: 1, want: 1, direct: true, fill: 0xEE},
		{what: "over the end", off: len(data) - 10, n: 11, want: 10, fill: 0xEE},
		{what: "behind the end", off: len(data), n: 1, fill: 0xEE, endOfFile: true},
		{what: "grown", do: func() error { return os.Truncate(name, int64(len(data)+100)) }, off: len(data) - 10, n: 10, want: 10, direct: true, fill: 0xEE},
		{what: "cut", do: func() error { return os.Truncate(name, 100) }, off: 90, n: 20, want: 10, fill: 0xEE},
		{what: "cut, known", off: 90, n: 20, want: 10, fill: 0xEE},
		{what: "gone", do: func() error { return os.Truncate(name, 0) }, off: 50, n: 20, endOfFile: true, fill: 0xEE},
	} {
		if s.do != nil {
			if err := s.do(); err != nil {
				t.Fatal(err)
			}
		}
		for i := range in {
			in[i] = 0xEE
		}
		before, counted := v.e.count.direct.Load(), v.countedReads()
		status := ntstatus.Success
		if s.endOfFile {
			status = ntstatus.EndOfFile
		}
		c.want(status, uint32(s.want), c.readHeader(fid, uint64(s.off), uint32(s.n), 8), nil)
		want := bytes.Repeat([]byte{s.fill}, s.n)
		copy(want, data[min(s.off, len(data)):][:s.want])
		if s.do != nil { // where the file has become shorter there may be zeros
			for i, b := range in[8+s.want : 8+s.n] {
				if b == 0 {
					in[8+s.want+i] = s.fill
				}
			}
		}
		if !bytes.Equal(in[8:8+s.n], want) {
			t.Errorf("%s: the data differs from the file", s.what)
		}
		if in[7] != 0xEE || in[8+s.n] != 0xEE {
			t.Errorf("%s: written outside of the requested range", s.what)
		}
		counted(t)
		if got := v.e.count.direct.Load() - before; got != 0 != s.direct {
			t.Errorf("%s: %d direct reads", s.what, got)
		}
	}
}

// Memory of the client that the provider cannot share is filled from the file too, in
// pieces if need be.
//
// Source: [LWIO §Read]
func TestLongReadOfUnsharedMemoryIsDirect(t *testing.T) {
	v := newEnv(t, envConfig{on: "shm"})
	n := v.negotiate(v.sess)
	c := v.connect(n)
	c.auth(n, authOptions{mutate: func(p *wire.AuthParams) { p.MaxRdmaWindowSize = 1 << 20 }})
	data := content(1 << 20)
	fid := c.register(v.file("a", data))
	plain := make([]byte, 512<<10)
	region, err := c.a.RegisterMemory(t.Context(), plain, rdma.AccessRemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{100, 4096, longRead, 100_000, 512 << 10} {
		clear(plain)
		h := c.readHeader(fid, 77, uint32(size), 0)
		h.DataVa, h.DataMh = region.RemoteAddr().Addr, uint32(region.RemoteAddr().Token)
		before, counted := v.e.count.direct.Load(), v.countedReads()
		c.want(ntstatus.Success, uint32(size), h, nil)
		if !bytes.Equal(plain[:size], data[77:77+size]) || !bytes.Equal(plain[size:], make([]byte, len(plain)-size)) {
			t.Errorf("%d bytes: the data differs from the file", size)
		}
		counted(t)
		if v.e.count.direct.Load() == before {
			t.Errorf("%d bytes go through a buffer of the server", size)
		}
	}
}

// A worker reads data that is not in the page cache, and data that the provider or the backend cannot
// transfer directly.
//
// Source: [LWIO §Read]
func TestUncachedReadTakesBuffer(t *testing.T) {
	for name, ec := range map[string]envConfig{
		"no provider for it": {on: "iwarp"},
		"no file":            {on: "shm", backend: newGate(t)},
	} {
		t.Run(name, func(t *testing.T) {
			v := newEnv(t, ec)
			if g, is := ec.backend.(*gate); is {
				v.dir = g.dir
			}
			v.check(v.client())
			if v.e.count.direct.Load() != 0 {
				t.Error("a direct read")
			}
		})
	}
	v := newEnv(t, envConfig{on: "shm"})
	c := v.client()
	fid := c.register(v.open("a", vfs.ReadData|vfs.WriteData, 0, v.sess))
	_, f := v.soleFile()
	f.size = 10 // wrong, so that the provider is asked for bytes behind the end
	c.want(ntstatus.EndOfFile, 0, c.readHeader(fid, 0, 5, 0), nil)
	v.check(c)
}

// The source of a file is closed with its last use: before the file itself is, and
// not under a read.
//
// Source: [OP-58b] [OP-94d]
func TestFileSourceClosesWithLastUse(t *testing.T) {
	for name, end := range map[string]func(c *rawClient, o *vfs.Open, fid uint16){
		"CLOSE":      func(c *rawClient, _ *vfs.Open, fid uint16) { c.send(controlHeader(wire.OpClose, fid), nil) },
		"SMB":        func(_ *rawClient, o *vfs.Open, _ uint16) { o.Close() },
		"disconnect": func(c *rawClient, _ *vfs.Open, _ uint16) { c.connector.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			v := newEnv(t, envConfig{on: "shm"})
			c := v.client()
			o := v.file("a", content(64<<10))
			fid := c.register(o)
			conn, f := v.soleFile()
			closed := func() bool {
				b := conn.fabric.buffers
				b.mu.Lock()
				defer b.mu.Unlock()
				return len(b.usages) == 0 && f.source == nil
			}
			for range clientCredits - 2 {
				c.send(c.readHeader(fid, 0, 64<<10, 0), nil)
			}
			if closed() {
				t.Error("closed before its time")
			}
			end(c, o, fid)
			eventually(t, "the source is closed", closed)
		})
	}
}

// countedReads returns a function that waits until another read is counted: that happens after
// its answer.
func (v *env) countedReads() func(testing.TB) {
	reads := &v.e.count.traffic.ops[wire.OpRead].ops
	before := reads.Load()
	return func(t testing.TB) {
		t.Helper()
		eventually(t, "the read is counted", func() bool { return reads.Load() > before })
	}
}
