package iwarp

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"lwio/rdma"
)

// countingConn counts the reads and writes of a connection.
type countingConn struct {
	net.Conn
	reads, writes atomic.Int64
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.reads.Add(1)
	return n, err
}

func (c *countingConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// Requests that are posted together are written by one call, with headers, payload and
// trailers. One call reads many small frames.
//
// Source: [RFC 5044 §4]
func TestPostsShareOneSystemCall(t *testing.T) {
	const n = 16
	var nc *countingConn
	cfg := &Config{Dial: func(ctx context.Context, local, remote *net.TCPAddr) (net.Conn, error) {
		c, err := dialTCP(ctx, local, remote)
		nc = &countingConn{Conn: c}
		return nc, err
	}}
	client, server := connect(t, cfg, nil, shape{depth: 2 * n, sge: 1, buf: 64 << 10})
	message := func(from *side) []rdma.Request {
		var reqs []rdma.Request
		for i := range n {
			reqs = append(reqs, rdma.Request{Op: rdma.OpSend, ID: uint64(i), SGL: from.sgl(600*i, 600)})
		}
		return reqs
	}
	exchange := func(from, to *side) {
		for i := range n {
			to.recv(uint64(i), 600*i, 600)
		}
		from.post(message(from)...)
		for i := range n {
			to.want(rdma.OpReceive, uint64(i), rdma.StatusSuccess)
			from.want(rdma.OpSend, uint64(i), rdma.StatusSuccess)
		}
	}
	before := nc.writes.Load()
	exchange(client, server)
	if got := nc.writes.Load() - before; got != 1 {
		t.Errorf("%d messages left by %d calls", n, got)
	}
	before = nc.reads.Load()
	exchange(server, client)
	if got := nc.reads.Load() - before; got > n/4 {
		t.Errorf("%d frames took %d reads", n, got)
	}
}
