//go:build linux

package shm

import (
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
	"testing"

	"lwio/internal/test/skip"
	"lwio/rdma"
)

// BenchmarkPingPong sends 64 bytes back and forth between two goroutines of one process,
// which poll or sleep. It compares with the same exchange over a Unix socket.
func BenchmarkPingPong(b *testing.B) {
	b.Run("unix-socket", benchmarkSocket)
	b.Run("polled", func(b *testing.B) { benchmarkPingPong(b, false) })
	b.Run("sleeping", func(b *testing.B) { benchmarkPingPong(b, true) })
}

func benchmarkSocket(b *testing.B) {
	l := must[*net.UnixListener](b)(net.ListenUnix("unixpacket", sockAddr(randomName())))
	defer l.Close()
	client := must[*net.UnixConn](b)(net.DialUnix("unixpacket", nil, l.Addr().(*net.UnixAddr)))
	defer client.Close()
	server := must[*net.UnixConn](b)(l.AcceptUnix())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer server.Close()
		_ = echoSocket(server)
	}()
	ping(b, client)
	client.Close()
	<-done
}

// ping sends 64 bytes over a socket and waits until they come back.
func ping(b *testing.B, nc *net.UnixConn) {
	buf := make([]byte, 64)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := nc.Write(buf); err != nil {
			b.Fatal(err)
		}
		if _, err := nc.Read(buf); err != nil {
			b.Fatal(err)
		}
	}
}

// player takes messages and sends them without an allocation.
type player struct {
	s     *side
	sleep bool
	req   [1]rdma.Request
	recv  [1]rdma.ReceiveRequest
	res   [8]rdma.Result
}

func newPlayer(s *side, sleep bool) *player {
	p := &player{s: s, sleep: sleep}
	p.req[0] = rdma.Request{Op: rdma.OpSend, SGL: s.sge(0, 64)}
	p.recv[0] = rdma.ReceiveRequest{SGL: s.sge(64, 64)}
	return p
}

func (p *player) send() error {
	if _, err := p.s.icq.Poll(p.res[:]); err != nil {
		return err
	}
	_, err := p.s.qp.Post(p.req[:])
	return err
}

// take waits for one message and posts the receive for the next one.
func (p *player) take(b testing.TB) error {
	for {
		n, err := p.s.rcq.Poll(p.res[:1])
		if err == nil && n == 0 {
			if p.sleep {
				err = p.s.rcq.Wait(b.Context(), rdma.NotifyAny)
			}
			if err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		if s := p.res[0].Status; s != rdma.StatusSuccess {
			return s
		}
		_, err = p.s.qp.PostReceive(p.recv[:])
		return err
	}
}

func benchmarkPingPong(b *testing.B, sleep bool) {
	active, passive := connected(b, nil, 4096)
	ping, pong := newPlayer(active, sleep), newPlayer(passive, sleep)
	for _, p := range []*player{ping, pong} {
		if _, err := p.s.qp.PostReceive(p.recv[:]); err != nil {
			b.Fatal(err)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pong.take(b) == nil && pong.send() == nil {
		}
	}()
	b.ReportAllocs()
	for b.Loop() {
		if err := ping.send(); err != nil {
			b.Fatal(err)
		}
		if err := ping.take(b); err != nil {
			b.Fatal(err)
		}
	}
	active.conn.Close()
	<-done
}

// BenchmarkWrite writes into memory of the peer, directly and by copy. It compares with
// the same copy within this process.
func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{8, 4 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("memmove/%d", size), func(b *testing.B) {
			src, dst := fill(make([]byte, size)), make([]byte, size)
			b.SetBytes(int64(size))
			for b.Loop() {
				copy(dst, src)
			}
		})
		b.Run(fmt.Sprintf("direct/%d", size), func(b *testing.B) { benchmarkWrite(b, size, true) })
		b.Run(fmt.Sprintf("copy/%d", size), func(b *testing.B) { benchmarkWrite(b, size, false) })
	}
}

func benchmarkWrite(b *testing.B, size int, direct bool) {
	active, passive := connected(b, nil, max(size, 4096))
	at := passive.at(0)
	if direct {
		active.introduce(b, passive.region)
	} else {
		heap := make([]byte, size)
		at = must[rdma.MemoryRegion](b)(passive.a.RegisterMemory(b.Context(), heap, rdma.AccessRemoteWrite)).RemoteAddr()
	}
	w := &writer{s: active, req: [1]rdma.Request{{Op: rdma.OpWrite, SGL: active.sge(0, size), Remote: at}}}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		w.write(b)
	}
}

// BenchmarkSilentWrite writes a word silently, with a result sometimes, like a server
// that answers a poller.
func BenchmarkSilentWrite(b *testing.B) {
	active, passive := connected(b, nil, 4096)
	active.introduce(b, passive.region)
	w := &writer{s: active, req: [1]rdma.Request{{Op: rdma.OpWrite, Remote: passive.at(0)}}}
	for name, req := range map[string]rdma.Request{
		"inline": {Flags: rdma.FlagInline, Inline: active.mem[:8]},
		"memory": {SGL: active.sge(0, 8)},
	} {
		b.Run(name, func(b *testing.B) {
			w.req[0].Flags, w.req[0].Inline, w.req[0].SGL = req.Flags, req.Inline, req.SGL
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%64 != 0 {
					w.req[0].Flags |= rdma.FlagSilentSuccess
					if _, err := w.s.qp.Post(w.req[:]); err != nil {
						b.Fatal(err)
					}
					continue
				}
				w.req[0].Flags &^= rdma.FlagSilentSuccess
				w.write(b)
			}
		})
	}
}

// writer posts writes and takes their results.
type writer struct {
	s   *side
	req [1]rdma.Request
	res [8]rdma.Result
}

func (w *writer) write(tb testing.TB) {
	if _, err := w.s.qp.Post(w.req[:]); err != nil {
		tb.Fatal(err)
	}
	for n := 0; n == 0; {
		var err error
		if n, err = w.s.icq.Poll(w.res[:]); err != nil {
			tb.Fatal(err)
		}
	}
}

// BenchmarkFileWrite writes cached pages of a file into memory of the peer.
func BenchmarkFileWrite(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			active, passive := connected(b, nil, 1<<20)
			_, _, src := active.source(b, size)
			active.introduce(b, passive.region)
			w := &writer{s: active, req: [1]rdma.Request{{Op: rdma.OpWrite, File: src, FileLength: size, Remote: passive.at(0)}}}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				w.write(b)
			}
		})
	}
}

// BenchmarkAcross sends 64 bytes to another process and back: polling, asleep in the
// network poller, and blocking its thread. It also writes a word that the other process
// answers. It compares with the minimum for two processes, and with a Unix socket.
func BenchmarkAcross(b *testing.B) {
	b.Run("unix-socket", func(b *testing.B) {
		name := randomName()
		l := must[*net.UnixListener](b)(net.ListenUnix("unixpacket", sockAddr(name)))
		defer l.Close()
		spawn(b, "socket", rdma.Addr{Name: name}, rdma.RemoteAddr{})
		nc := must[*net.UnixConn](b)(l.AcceptUnix())
		defer nc.Close()
		ping(b, nc)
	})
	for _, way := range []string{"spin", "futex", "eventfd"} {
		b.Run("floor-"+way, func(b *testing.B) { benchmarkFloor(b, way) })
	}
	b.Run("word", benchmarkWord)
	for name, sleep := range map[string]string{"polled": "", "sleeping": "poller", "blocking": "futex"} {
		b.Run(name, func(b *testing.B) {
			b.Setenv("SHM_TEST_SLEEP", sleep)
			s, _, _ := parent(b, "echo")
			p := newPlayer(s, sleep != "")
			b.ReportAllocs()
			for b.Loop() {
				if err := p.send(); err != nil {
					b.Fatal(err)
				}
				if err := p.take(b); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// wordPlayer writes words into the peer's memory, silently, with a result sometimes.
type wordPlayer struct {
	cq   rdma.CompletionQueue
	qp   rdma.QueuePair
	req  [1]rdma.Request
	res  [8]rdma.Result
	last uint64
}

func newWordPlayer(buf []byte, cq rdma.CompletionQueue, qp rdma.QueuePair, peer rdma.RemoteAddr) *wordPlayer {
	return &wordPlayer{cq: cq, qp: qp, req: [1]rdma.Request{{Op: rdma.OpWrite, Inline: buf[:8], Remote: peer}}}
}

func (w *wordPlayer) say() error {
	binary.NativeEndian.PutUint64(w.req[0].Inline, w.last)
	w.req[0].Flags = rdma.FlagInline | rdma.FlagSilentSuccess
	if w.last%16 == 0 {
		w.req[0].Flags = rdma.FlagInline
		if _, err := w.cq.Poll(w.res[:]); err != nil {
			return err
		}
	}
	_, err := w.qp.Post(w.req[:])
	return err
}

// watch waits for the answer. It returns false if the connection ended.
func (w *wordPlayer) watch(word *atomic.Uint64) bool {
	for i := 1; word.Load() != w.last; i++ {
		if i%1024 != 0 {
			continue
		}
		n, err := w.cq.Poll(w.res[:])
		if err != nil || n > 0 && w.res[n-1].Status == rdma.StatusCanceled {
			return false
		}
		if i%(1<<16) == 0 {
			runtime.Gosched()
		}
	}
	return true
}

func benchmarkWord(b *testing.B) {
	s, _, at := parent(b, "word")
	w := newWordPlayer(s.mem[1024:], s.icq, s.qp, at)
	word := wordAt(s.mem, 64)
	b.ReportAllocs()
	for b.Loop() {
		w.last++
		if err := w.say(); err != nil {
			b.Fatal(err)
		}
		if !w.watch(word) {
			b.Fatal("the connection ended")
		}
	}
}

// The data path allocates nothing, by ring or directly.
func TestDataPathDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		skip.Test(t, "the race detector allocates")
	}
	active, passive := connected(t, nil, 1<<16)
	heap := make([]byte, 4096)
	byCopy := must[rdma.MemoryRegion](t)(passive.a.RegisterMemory(t.Context(), heap, rdma.AccessRemoteWrite)).RemoteAddr()
	active.introduce(t, passive.region)
	_, _, src := active.source(t, 4096)
	for name, req := range map[string]rdma.Request{
		"direct": {Op: rdma.OpWrite, SGL: active.sge(0, 4096), Remote: passive.at(0)},
		"copy":   {Op: rdma.OpWrite, SGL: active.sge(0, 4096), Remote: byCopy},
		"file":   {Op: rdma.OpWrite, File: src, FileLength: 4096, Remote: passive.at(0)},
		"cached": {Op: rdma.OpWrite, Flags: rdma.FlagOnlyIfCached, File: src, FileLength: 4096, Remote: passive.at(0)},
	} {
		w := &writer{s: active, req: [1]rdma.Request{req}}
		write := func() {
			eventually(t, "the ring is empty", active.drained)
			w.write(t)
		}
		allocatesNothing(t, name, write)
	}
	p, q := newPlayer(active, false), newPlayer(passive, false)
	if _, err := passive.qp.PostReceive(q.recv[:]); err != nil {
		t.Fatal(err)
	}
	allocatesNothing(t, "a message", func() {
		if p.send() != nil || q.take(t) != nil {
			t.Fatal("no message arrives")
		}
	})
}

// allocatesNothing counts the allocations of the whole process during many operations, of
// which less than one in a hundred may allocate. testing.AllocsPerRun rounds down, so it
// would miss an allocation in half of the operations. The queues have grown before. Other
// goroutines may allocate during one measurement, for instance after the system stopped
// this process, but not during all of them.
func allocatesNothing(t *testing.T, what string, op func()) {
	t.Helper()
	const operations = 10_000
	for range operations / 10 {
		op()
	}
	var counts []uint64
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range operations {
			op()
		}
		runtime.ReadMemStats(&after)
		n := after.Mallocs - before.Mallocs
		if n < operations/100 {
			return
		}
		counts = append(counts, n)
	}
	t.Errorf("%s: %d allocations in %d operations each", what, counts, operations)
}
