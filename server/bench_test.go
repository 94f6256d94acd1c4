package server

import (
	"context"
	"runtime"
	"testing"

	"lwio/internal/test/skip"
	"lwio/internal/wire"
	"lwio/rdma"
)

// load keeps requests of one kind in flight.
type load struct {
	c           *rawClient
	depth, size int // bytes that a request reads or writes
	message     int // size of a message
	results     [32]rdma.Result
}

// newLoad prepares a message for each request in flight.
func newLoad(tb testing.TB, depth, size, body int, header func(c *rawClient, fid uint16, i int) wire.Header) *load {
	v := newEnv(tb, envConfig{})
	n := v.negotiate(v.sess)
	c := v.connect(n)
	c.auth(n, authOptions{mutate: func(p *wire.AuthParams) { p.MaxRdmaWindowSize = 1 << 20 }})
	fid := c.register(v.file("a", content(16<<20)))
	l := &load{c: c, depth: depth, size: size, message: wire.HeaderSize + body}
	for i := range depth {
		h := header(c, fid, i)
		h.Cookie = uint64(i + 1)
		copy(c.out.Bytes()[i*l.message:], h.AppendTo(nil))
	}
	return l
}

// send sends the message with an index; every eighth one has a completion.
func (l *load) send(i int) {
	c := l.c
	c.scratch.sge[0] = rdma.SGE{Region: c.out, Offset: i * l.message, Length: l.message}
	c.scratch.req[0] = rdma.Request{Op: rdma.OpSend, SGL: c.scratch.sge[:]}
	if i%8 != 0 {
		c.scratch.req[0].Flags = rdma.FlagSilentSuccess
	}
	if _, err := c.qp.Post(c.scratch.req[:]); err != nil {
		c.t.Fatal(err)
	}
}

// run performs n requests.
func (l *load) run(n int) {
	sent := min(l.depth, n)
	for i := range sent {
		l.send(i)
	}
	for answered := 0; answered < n; {
		got, err := l.c.cq.Poll(l.results[:])
		if err != nil {
			l.c.t.Fatal(err)
		}
		if got == 0 {
			if err := l.c.cq.Wait(context.Background(), rdma.NotifyAny); err != nil {
				l.c.t.Fatal(err)
			}
		}
		for i := range l.results[:got] {
			cookie, is := l.answer(&l.results[i])
			if !is {
				continue
			}
			if answered++; sent < n {
				l.send(int(cookie - 1))
				sent++
			}
		}
	}
}

// answer checks a completion and returns the cookie of the answer; false if it is none.
func (l *load) answer(r *rdma.Result) (cookie uint64, is bool) {
	if r.Status != rdma.StatusSuccess {
		l.c.t.Fatal(r.Status)
	}
	if r.Op != rdma.OpReceive {
		return 0, false
	}
	s, err := wire.DecodeStatusResponse(l.c.replies.Bytes()[r.ID*sealedAnswerSize:][:wire.StatusResponseSize])
	if err != nil || s.Status != 0 || int(s.Information) != l.size {
		l.c.t.Fatalf("%+v, %v", s, err)
	}
	l.c.postReply(r.ID)
	return s.Cookie, true
}

func read4K(c *rawClient, fid uint16, i int) wire.Header {
	return c.readHeader(fid, uint64(i)*37*4096, 4096, i*4096)
}

func read512K(c *rawClient, fid uint16, i int) wire.Header {
	return c.readHeader(fid, uint64(i)*512<<10, 512<<10, i*512<<10)
}

func write64K(_ *rawClient, fid uint16, i int) wire.Header {
	return writeHeader(fid, uint64(i)*64<<10, 64<<10)
}

func benchmark(b *testing.B, l *load) {
	l.run(l.depth)
	b.SetBytes(int64(l.size))
	b.ReportAllocs()
	b.ResetTimer()
	l.run(b.N)
	b.StopTimer()
}

// Reads of 4 KiB from the page cache, 32 in flight; both sides in one process,
// with CRC.
func BenchmarkRead4K(b *testing.B) { benchmark(b, newLoad(b, 32, 4096, 0, read4K)) }

// Reads of 512 KiB, 8 in flight.
func BenchmarkRead512K(b *testing.B) { benchmark(b, newLoad(b, 8, 512<<10, 0, read512K)) }

// Writes of 64 KiB, 16 in flight.
func BenchmarkWrite64K(b *testing.B) { benchmark(b, newLoad(b, 16, 64<<10, 64<<10, write64K)) }

// A read and a write allocate nothing, on either side.
func TestNoAllocationPerIO(t *testing.T) {
	if raceEnabled {
		skip.Test(t, "the race detector empties pools")
	}
	for _, l := range []struct {
		name string
		load func() *load // made just before its use: the server takes credits of an idle one back
	}{
		{"read", func() *load { return newLoad(t, 8, 4096, 0, read4K) }},
		{"large read", func() *load { return newLoad(t, 8, 512<<10, 0, read512K) }},
		{"write", func() *load { return newLoad(t, 8, 64<<10, 64<<10, write64K) }},
	} {
		const n = 5000
		load := l.load()
		load.run(n)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		load.run(n)
		runtime.ReadMemStats(&after)
		if per := float64(after.Mallocs-before.Mallocs) / n; per > 0.5 {
			t.Errorf("%s: %.2f allocations for each", l.name, per)
		}
	}
}
