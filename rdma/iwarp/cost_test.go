package iwarp

import (
	"runtime"
	"testing"

	"lwio/internal/test/skip"
	"lwio/rdma"
)

// Messages of many sizes are moved in both directions without an allocation when the
// queues have grown.
//
// Source: [ND QueuePair.Send]
func TestMessagesDoNotAllocate(t *testing.T) {
	if raceEnabled {
		skip.Test(t, "the race detector empties pools")
	}
	for name, cfg := range transferConfigs {
		client, server := connect(t, cfg, cfg, shape{depth: 16, sge: 2, buf: 1 << 20, limits: rdma.ReadLimits{Inbound: 1, Outbound: 1}})
		sink := client.sgl(0, 5000)
		results := make([]rdma.Result, 32)
		recv := []rdma.ReceiveRequest{{}, {SGL: server.sgl(0, 512)}, {SGL: server.sgl(0, 512)}}
		sgl := client.sgl(0, 200)
		reqs := []rdma.Request{
			{Op: rdma.OpWrite, SGL: client.sgl(0, 8), Remote: server.at(0)},
			{Op: rdma.OpWrite, Flags: rdma.FlagImmediate, SGL: client.sgl(0, 300_000), Remote: server.at(8)},
			{Op: rdma.OpWrite, SGL: client.sgl(0, 5000), Remote: server.at(8)},
			{Op: rdma.OpRead, SGL: sink, Remote: server.at(0)},
			{Op: rdma.OpRead, SGL: sgl, Remote: server.at(300_000)},
			{Op: rdma.OpSend, Flags: rdma.FlagReadFence, SGL: sgl},
			{Op: rdma.OpSend, Flags: rdma.FlagInline | rdma.FlagSolicitEvent, Inline: client.buf[:500]},
		}
		w, err := client.a.CreateMemoryWindow()
		if err != nil {
			t.Fatal(err)
		}
		src, err := client.a.RegisterFile(t.Context(), testFile(t, make([]byte, 90_000)))
		if err != nil {
			t.Fatal(err)
		}
		reqs = append(reqs, rdma.Request{Op: rdma.OpWrite, File: src, FileLength: 100_000, Remote: server.at(8)})
		reqs = append(reqs, rdma.Request{Op: rdma.OpBind, Flags: rdma.FlagAllowRead, Window: w, Region: client.mr, Length: 8},
			rdma.Request{Op: rdma.OpInvalidate, Window: w})
		turn := func() {
			server.qp.PostReceive(recv)
			client.qp.Post(reqs)
			for got := 0; got < len(reqs); {
				n, err := waitFor(client.cq, results)
				if err != nil {
					t.Fatal(err)
				}
				got += n
			}
			for got := 0; got < len(recv); {
				n, err := waitFor(server.cq, results)
				if err != nil {
					t.Fatal(err)
				}
				got += n
			}
		}
		for range 20 {
			turn()
		}
		if n := testing.AllocsPerRun(100, turn); n != 0 {
			t.Errorf("%s: %v allocations in a turn", name, n)
		}
	}
}

// BenchmarkIdle reports the memory of both ends of an idle connection.
func BenchmarkIdle(b *testing.B) {
	const n = 100
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for range n {
			client, server := connect(b, nil, nil, shape{depth: 256, sge: 2, buf: 4096})
			server.recv(1, 0, 8)
			client.post(rdma.Request{Op: rdma.OpSend, SGL: client.sgl(0, 8)})
			server.next()
		}
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapInuse-before.HeapInuse+after.StackInuse-before.StackInuse)/(2*n), "B/end")
	}
}
