package server

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lwio/internal/wire"
	"lwio/rdma"
)

// filePair is a fuzzQueue that also accepts RDMA writes from a file.
type filePair struct {
	*fuzzQueue
	takes int   // number of accepted requests, of two that begin with one
	err   error // the error after them
	posts [][]rdma.Op
}

func (q *filePair) Post(reqs []rdma.Request) (int, error) {
	var ops []rdma.Op
	for i := range reqs {
		ops = append(ops, reqs[i].Op)
	}
	q.posts = append(q.posts, ops)
	if reqs[0].File == nil {
		return q.fuzzQueue.Post(reqs)
	}
	if q.err != nil {
		return q.takes, q.err
	}
	n, err := q.fuzzQueue.Post(reqs[1:])
	return n + 1, err
}

// plainFile is a file source without an adapter.
type plainFile struct{ f *os.File }

func (p plainFile) File() *os.File { return p.f }
func (p plainFile) Close() error   { return p.f.Close() }

func (q *filePair) PostReceive(reqs []rdma.ReceiveRequest) (int, error) {
	for range reqs {
		q.posts = append(q.posts, []rdma.Op{rdma.OpReceive})
	}
	return q.fuzzQueue.PostReceive(reqs)
}

// A READ that came alone is answered by data and answer that are posted together, and the
// receive behind them, as there is one ahead. If the data cannot be posted the READ takes another
// way, and if the answer cannot be posted the connection ends. In no case is anything counted
// twice or lost.
//
// Source: [LWIO §I/O Processing] [OP-66b]
func TestSingleReadPostsDataAndAnswerTogether(t *testing.T) {
	errGone := errors.New("gone")
	toBlock := completion{Polling: true, IosVa: 8}
	toCookie := completion{Cookie: 3}
	for name, tt := range map[string]struct {
		how   completion
		takes int
		err   error
		posts [][]rdma.Op
	}{
		"status block":          {how: toBlock, posts: [][]rdma.Op{{rdma.OpWrite, rdma.OpWrite}, {rdma.OpReceive}}},
		"message":               {how: toCookie, posts: [][]rdma.Op{{rdma.OpWrite, rdma.OpSend}, {rdma.OpReceive}}},
		"not in the page cache": {how: toCookie, err: errGone, posts: [][]rdma.Op{{rdma.OpWrite, rdma.OpSend}, {rdma.OpReceive}, {rdma.OpWrite, rdma.OpSend}}},
		"no answer possible":    {how: toBlock, takes: 1, err: errGone, posts: [][]rdma.Op{{rdma.OpWrite, rdma.OpWrite}}},
	} {
		t.Run(name, func(t *testing.T) {
			c, q := newFuzzConn(t)
			pair := &filePair{fuzzQueue: q, takes: tt.takes, err: tt.err}
			c.setQueues(nil, pair)
			file, err := os.Create(filepath.Join(t.TempDir(), "f"))
			if err == nil {
				err = file.Truncate(20_000)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			f := c.files.get(1)
			f.source = plainFile{file}
			h := by(wire.NewRead(1, 100, wire.RDMARegion{Length: 500}), tt.how)
			if !q.receive(c, h.AppendTo(nil)) {
				t.Fatal("the message is refused")
			}
			if tt.takes == 0 {
				c.jobs.Wait() // for a worker, where the file system does not support cached reads
				if err := q.settle(c); err != nil {
					t.Fatal(err)
				}
				q.finish(t, c)
				if got := c.traffic.snapshot().Reads; got.Operations != 1 || got.Bytes != 500 {
					t.Errorf("counted as %+v", got)
				}
				if got := c.traffic.reads.snapshot().Operations; got != 1 {
					t.Errorf("%d delays are counted", got)
				}
			} else if err := context.Cause(c.ctx); !errors.Is(err, errGone) || !c.send.dead {
				t.Errorf("the connection goes on: %v", err)
			}
			if diff := cmp.Diff(tt.posts, pair.posts); diff != "" {
				t.Error("not posted as expected:", diff)
			}
			c.releaseFiles()
			f.source = nil
		})
	}
}

// While another goroutine posts, or without an entry, nothing is done, and the freed entries are left
// to the flush, which may have to post other answers with them.
func TestSingleReadLeavesBusyQueueAlone(t *testing.T) {
	for name, hinder := range map[string]func(c *conn){
		"another goroutine posts": func(c *conn) { c.send.posting, c.ready.freed = true, 1 },
		"outbox is not empty":     func(c *conn) { c.send.outbox.push(c.notice); c.ready.freed = 1 },
		"connection is dead":      func(c *conn) { c.send.dead, c.ready.freed = true, 1 },
		"no entry":                func(c *conn) { c.send.entries = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := newFuzzConn(t)
			o, err := c.ops.take(c)
			if err != nil {
				t.Fatal(err)
			}
			c.reads.direct = append(c.reads.direct, o)
			c.reads.writes.next()
			hinder(c)
			entries, freed := c.send.entries, c.ready.freed
			c.reads.postSingle(o)
			if len(c.reads.direct) != 1 || c.send.entries != entries || c.ready.freed != freed || o.info != 0 {
				t.Errorf("%d collected, %d entries, %d freed", len(c.reads.direct), c.send.entries, c.ready.freed)
			}
		})
	}
}
