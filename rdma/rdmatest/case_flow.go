package rdmatest

import (
	"context"
	"encoding/binary"
	"fmt"

	"lwio/rdma"
)

var flowCases = []Case{
	{Name: "flow/credits", Source: "[ND ndping]", run: credits},
	{Name: "flow/both-ways", Source: "[ND ndpingpong]", run: bothWays},
	{Name: "flow/concurrent-posts", Source: "[ND QueuePair]", run: concurrentPosts},
}

// credits sends with all receives of the peer in use. The peer returns credits when half
// of its receives are used.
func credits(r *rig) {
	const depth, total, size = 16, 2000, 256
	active, passive := r.pair(shape{depth: depth})
	for i := range depth {
		passive.receive(uint64(i), passive.sge(i*size, size))
	}
	active.receive(0, nil)
	active.receive(0, nil)
	serve := r.beginMany("receiver", func(context.Context) error { return passive.giveCredits(total, depth, size) })
	credit := depth
	for i := range total {
		for credit == 0 {
			if res := active.received(); res.Status != rdma.StatusSuccess {
				r.Fatalf("credit: %+v", res)
			}
			active.receive(0, nil)
			credit += depth / 2
		}
		slot := (i % depth) * size
		binary.LittleEndian.PutUint64(active.mem[slot:], uint64(i))
		active.post(rdma.Request{Op: rdma.OpSend, SGL: active.sge(slot, size)})
		credit--
		if res := active.sent(); res.Status != rdma.StatusSuccess {
			r.Fatalf("send %d: %+v", i, res)
		}
	}
	r.ok("receiver", serve.wait())
}

// giveCredits takes messages, checks their order, and answers every half queue.
func (e *end) giveCredits(total, depth, size int) error {
	used := 0
	for i := range total {
		res, err := e.poll(e.rcq)
		if err != nil {
			return err
		}
		slot := (i % depth) * size
		if got := binary.LittleEndian.Uint64(e.mem[slot:]); got != uint64(i) || res.Bytes != size {
			return fmt.Errorf("message %d has number %d: %+v", i, got, res)
		}
		if _, err := e.qp.PostReceive([]rdma.ReceiveRequest{{SGL: e.sge(slot, size)}}); err != nil {
			return err
		}
		if used++; used < depth/2 {
			continue
		}
		used = 0
		if _, err := e.qp.Post([]rdma.Request{{Op: rdma.OpSend}}); err != nil {
			return err
		}
		if _, err := e.poll(e.icq); err != nil {
			return err
		}
	}
	return nil
}

// poll waits for one success. It may be called outside the goroutine of the case.
func (e *end) poll(cq rdma.CompletionQueue) (rdma.Result, error) {
	var res [1]rdma.Result
	for end := e.r.deadline(); ; {
		n, err := cq.Poll(res[:])
		switch {
		case err != nil:
			return res[0], err
		case n == 1 && res[0].Status != rdma.StatusSuccess:
			return res[0], res[0].Status
		case n == 1:
			return res[0], nil
		}
		if err := end.pause(); err != nil {
			return res[0], err
		}
	}
}

// bothWays fills both directions with more data than a socket holds. Neither side takes
// its results before it has posted all requests.
func bothWays(r *rig) {
	const depth, size = 16, 1 << 20
	active, passive := r.pair(shape{depth: depth, memory: 2 * size})
	ends := []*end{active, passive}
	for _, e := range ends {
		fill(e.mem[:size])
		for i := range depth {
			e.receive(uint64(i), e.sge(size, size))
		}
	}
	for _, e := range ends {
		for range depth {
			e.post(rdma.Request{Op: rdma.OpSend, SGL: e.sge(0, size)})
		}
	}
	for _, e := range ends {
		for i := range depth {
			if res := e.sent(); res.Status != rdma.StatusSuccess {
				r.Fatalf("send %d: %+v", i, res)
			}
			if res := e.received(); res.Status != rdma.StatusSuccess || res.Bytes != size || res.ID != uint64(i) {
				r.Fatalf("receive %d: %+v", i, res)
			}
		}
		if !same(e.mem[:size], e.mem[size:]) {
			r.Error("the data differs")
		}
	}
}

// concurrentPosts checks that the messages of each goroutine arrive once and in its
// order.
func concurrentPosts(r *rig) {
	const posters, each, depth = 6, 100, 32
	// The peer may have room again before the results of these messages are polled. The
	// queue therefore holds the results of all messages.
	active, passive := r.pair(shape{depth: depth, icq: posters*each + depth})
	room := make(chan struct{}, depth)
	for i := range depth {
		passive.receive(uint64(i), passive.sge(16*i, 16))
		room <- struct{}{}
	}
	var calls []*call
	for p := range posters {
		calls = append(calls, r.beginMany("poster", func(ctx context.Context) error {
			return active.postNumbered(ctx, uint64(p), each, room)
		}))
	}
	next := make([]uint64, posters)
	for range posters * each {
		res, err := passive.poll(passive.rcq)
		r.ok("receive", err)
		slot := 16 * int(res.ID)
		from, n := binary.LittleEndian.Uint64(passive.mem[slot:]), binary.LittleEndian.Uint64(passive.mem[slot+8:])
		if from >= posters || next[from] != n {
			r.Fatalf("message %d of poster %d, expected are %v", n, from, next)
		}
		next[from]++
		passive.receive(res.ID, passive.sge(slot, 16))
		room <- struct{}{}
	}
	for _, c := range calls {
		r.ok(c.what, c.wait())
	}
}

// postNumbered sends inline messages, each when the peer has room for it.
func (e *end) postNumbered(ctx context.Context, poster uint64, each int, room <-chan struct{}) error {
	for i := range each {
		select {
		case <-room:
		case <-ctx.Done():
			return errSlow
		}
		var msg [16]byte
		binary.LittleEndian.PutUint64(msg[:], poster)
		binary.LittleEndian.PutUint64(msg[8:], uint64(i))
		if err := e.send(msg[:]); err != nil {
			return err
		}
	}
	return nil
}

// send posts an inline message when the queue has room, and takes the available results.
func (e *end) send(msg []byte) error {
	for end := e.r.deadline(); ; {
		var res [8]rdma.Result
		if _, err := e.icq.Poll(res[:]); err != nil {
			return err
		}
		_, err := e.qp.Post([]rdma.Request{{Op: rdma.OpSend, Flags: rdma.FlagInline, Inline: msg}})
		if rdma.StatusOf(err) != rdma.StatusNoMoreEntries {
			return err
		}
		if err := end.pause(); err != nil {
			return err
		}
	}
}
