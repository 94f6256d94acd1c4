package iwarp

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"lwio/internal/test/skip"
	"lwio/rdma"
)

// tcpPair returns both ends of a TCP connection over loopback. It is the floor of the
// benchmarks.
func tcpPair(b *testing.B) (client, server net.Conn) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := l.Accept()
		accepted <- c
	}()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		b.Fatal(err)
	}
	if server = <-accepted; server == nil {
		b.Fatal("no connection")
	}
	b.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// waitFor polls results and sleeps between polls.
func waitFor(cq rdma.CompletionQueue, results []rdma.Result) (int, error) {
	for {
		n, err := cq.Poll(results)
		if n > 0 || err != nil {
			return n, err
		}
		if err := cq.Wait(context.Background(), rdma.NotifyAny); err != nil {
			return 0, err
		}
	}
}

// pollFor polls results without a pause. With one processor it yields.
func pollFor(cq rdma.CompletionQueue, results []rdma.Result) (int, error) {
	for {
		if n, err := cq.Poll(results); n > 0 || err != nil {
			return n, err
		}
	}
}

// waiting is a way to wait for results.
type waiting func(rdma.CompletionQueue, []rdma.Result) (int, error)

// echo answers receives with sends, the given number of times or until the connection
// ends.
func echo(e *side, n, times int, wait waiting) {
	results := make([]rdma.Result, 16)
	recv := []rdma.ReceiveRequest{{SGL: e.sgl(0, n)}}
	send := []rdma.Request{{Op: rdma.OpSend, SGL: e.sgl(0, n)}}
	for times > 0 {
		k, err := wait(e.cq, results)
		if err != nil {
			return
		}
		for _, r := range results[:k] {
			if r.Status != rdma.StatusSuccess {
				return
			}
			if r.Op == rdma.OpReceive {
				times--
				if _, err := e.qp.PostReceive(recv); err != nil {
					return
				}
				if _, err := e.qp.Post(send); err != nil {
					return
				}
			}
		}
	}
}

// spinConn is a TCP connection whose Read repeats until there is data.
type spinConn struct {
	net.Conn
	raw syscall.RawConn
	buf []byte
	n   int
	ok  bool
	err error
	fn  func(fd uintptr) bool
}

func newSpinConn(b *testing.B, c net.Conn) *spinConn {
	c, raw := adopt(c)
	if raw == nil {
		skip.Test(b, "sockets are not polled on this system")
	}
	s := &spinConn{Conn: c, raw: raw}
	s.fn = func(fd uintptr) bool {
		s.n, s.ok, s.err = readSocket(int(fd), nil, s.buf)
		return true
	}
	return s
}

func (s *spinConn) Read(p []byte) (int, error) {
	alone := runtime.GOMAXPROCS(0) == 1
	for s.buf = p; ; {
		switch err := s.raw.Read(s.fn); {
		case err != nil:
			return 0, err
		case s.ok && s.err == nil && s.n == 0:
			return 0, io.EOF
		case s.ok:
			return s.n, s.err
		case alone:
			runtime.Gosched()
		}
	}
}

// rounds is the number of exchanges in one turn of an interleaved benchmark.
const rounds = 500

// BenchmarkPingPong sends 64 bytes back and forth, with both sides asleep or polling. Its
// turns alternate with the same exchange over a TCP connection.
func BenchmarkPingPong(b *testing.B) {
	for _, polled := range []bool{false, true} {
		for _, crc := range []CRCPolicy{CRCOn, CRCOff} {
			b.Run(fmt.Sprintf("polled=%v/crc=%v", polled, crc == CRCOn), func(b *testing.B) { benchPingPong(b, polled, crc) })
		}
	}
}

func benchPingPong(b *testing.B, polled bool, crc CRCPolicy) {
	const size = 64
	cfg := &Config{CRC: crc}
	wait := waiting(waitFor)
	tc, ts := tcpPair(b)
	if polled {
		wait, tc, ts = pollFor, newSpinConn(b, tc), newSpinConn(b, ts)
	}
	client, server := connect(b, cfg, cfg, shape{depth: 16, sge: 1, buf: 4096})
	for i := range 8 {
		server.recv(uint64(i), 0, size)
	}
	var floor, ours []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		// Only one of the two runs at a time, and no other goroutine polls.
		floor = append(floor, against(func() { echoTCP(ts, size) }, func() { pingTCP(b, tc, size) }))
		ours = append(ours, against(func() { echo(server, size, rounds, wait) }, func() { ping(b, client, size, wait) }))
	}
	f, o := median(floor)/rounds, median(ours)/rounds
	b.ReportMetric(float64(o), "ns/roundtrip")
	b.ReportMetric(float64(f), "tcp-ns/roundtrip")
	b.ReportMetric(float64(o)/float64(f), "ratio")
}

// against runs two functions and returns the time of the second.
func against(other, f func()) time.Duration {
	done := make(chan struct{})
	go func() {
		defer close(done)
		other()
	}()
	start := time.Now()
	f()
	took := time.Since(start)
	<-done
	return took
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func echoTCP(c net.Conn, size int) {
	buf := make([]byte, size)
	for range rounds {
		if _, err := io.ReadFull(c, buf); err != nil {
			return
		}
		if _, err := c.Write(buf); err != nil {
			return
		}
	}
}

func pingTCP(b *testing.B, c net.Conn, size int) {
	buf := make([]byte, size)
	for range rounds {
		if _, err := c.Write(buf); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, buf); err != nil {
			b.Fatal(err)
		}
	}
}

func ping(b *testing.B, e *side, size int, wait waiting) {
	recv := []rdma.ReceiveRequest{{SGL: e.sgl(0, size)}}
	send := []rdma.Request{{Op: rdma.OpSend, SGL: e.sgl(64, size)}}
	results := make([]rdma.Result, 16)
	for range rounds {
		if _, err := e.qp.PostReceive(recv); err != nil {
			b.Fatal(err)
		}
		if _, err := e.qp.Post(send); err != nil {
			b.Fatal(err)
		}
		for got := false; !got; {
			n, err := wait(e.cq, results)
			if err != nil {
				b.Fatal(err)
			}
			for _, r := range results[:n] {
				got = got || r.Op == rdma.OpReceive
			}
		}
	}
}

// BenchmarkWrite streams RDMA writes with several of them in flight. The other side
// answers a send at the end of each turn. The turns alternate with a TCP stream of the
// same bytes, in gathered writes of at most 64 KiB.
func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10, 512 << 10, 1 << 20} {
		for _, crc := range []CRCPolicy{CRCOff, CRCOn} {
			b.Run(fmt.Sprintf("size=%dK/crc=%v", size>>10, crc == CRCOn), func(b *testing.B) { benchWrite(b, size, crc) })
		}
	}
}

func benchWrite(b *testing.B, size int, crc CRCPolicy) {
	const total, flight = 32 << 20, 32
	cfg := &Config{CRC: crc}
	buf := max(4<<20, size) + 64
	client, server := connect(b, cfg, cfg, shape{depth: 2 * flight, sge: 1, buf: buf})
	for i := range 8 {
		server.recv(uint64(i), buf-64, 8)
	}
	go echo(server, 8, math.MaxInt, waitFor)
	tc, ts := tcpPair(b)
	go sinkAndAnswer(ts, total)

	batch := min(flight, total/size)
	reqs := make([]rdma.Request, batch)
	sinkBuf := make([]byte, 1)
	chunk := client.buf[:min(size*flight, 1<<20)]
	var floor, ours []time.Duration
	b.SetBytes(total)
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		for sent := 0; sent < total; sent += len(chunk) {
			if _, err := tc.Write(chunk); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := io.ReadFull(tc, sinkBuf); err != nil {
			b.Fatal(err)
		}
		middle := time.Now()
		writeTurn(b, client, server, reqs, size, total)
		floor = append(floor, middle.Sub(start))
		ours = append(ours, time.Since(middle))
	}
	f, o := median(floor), median(ours)
	b.ReportMetric(total/1e6/o.Seconds(), "ours-MB/s")
	b.ReportMetric(total/1e6/f.Seconds(), "tcp-MB/s")
	b.ReportMetric(float64(f)/float64(o), "rate/tcp")
}

// sinkAndAnswer reads total bytes repeatedly, and answers each time with one byte.
func sinkAndAnswer(c net.Conn, total int) {
	buf := make([]byte, 256<<10)
	for got := 0; ; {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		for got += n; got >= total; got -= total {
			if _, err := c.Write(buf[:1]); err != nil {
				return
			}
		}
	}
}

// writeTurn writes total bytes, then sends and waits for the answer.
func writeTurn(b *testing.B, client, server *side, reqs []rdma.Request, size, total int) {
	window := (len(client.buf) - 64) / size
	sgl := make([]rdma.SGE, len(reqs))
	results := make([]rdma.Result, 64)
	client.recv(1, len(client.buf)-64, 8)
	outstanding, posted, count := 0, 0, total/size
	for posted < count || outstanding > 0 {
		n := min(len(reqs), count-posted)
		if outstanding > 0 {
			n = 0
		}
		for i := range n {
			off := (posted + i) % window * size
			sgl[i] = rdma.SGE{Region: client.mr, Offset: off, Length: size}
			reqs[i] = rdma.Request{Op: rdma.OpWrite, SGL: sgl[i : i+1], Remote: server.at(off)}
			if i != n-1 {
				reqs[i].Flags = rdma.FlagSilentSuccess
			}
		}
		if n > 0 {
			if k, err := client.qp.Post(reqs[:n]); err != nil {
				b.Fatal(k, err)
			}
			posted += n
			outstanding++
		}
		k, err := waitFor(client.cq, results)
		if err != nil {
			b.Fatal(err)
		}
		outstanding -= k
	}
	client.post(rdma.Request{Op: rdma.OpSend, ID: 2, SGL: client.sgl(0, 8)})
	for left := 2; left > 0; {
		k, err := waitFor(client.cq, results)
		if err != nil {
			b.Fatal(err)
		}
		left -= k
	}
}
