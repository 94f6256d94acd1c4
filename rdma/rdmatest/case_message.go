package rdmatest

import (
	"lwio/rdma"
)

var messageCases = []Case{
	{Name: "message/sizes", Source: "[ND QueuePair.Send], [ND QueuePair.Receive]", run: messageSizes},
	{Name: "message/result", Source: "[ND ND2_RESULT]", run: messageResult},
	{Name: "message/scatter-gather", Source: "[ND ND2_SGE]", run: scatterGather},
	{Name: "message/inline", Source: "[ND Op flags INLINE]", run: inline},
	{Name: "message/order", Source: "[ND QueuePair §Ordering]", run: messageOrder},
	{Name: "message/silent-success", Source: "[ND Op flags SILENT_SUCCESS]", run: silentSuccess},
	{Name: "message/by-reference", Source: "[ND QueuePair.Send]", run: messageByReference},
	{Name: "message/read-fence", Source: "[ND Op flags READ_FENCE]", run: readFence},
	{Name: "message/receive-before-connect", Source: "[ND QueuePair.Receive]", run: receiveBeforeConnect},
}

// messageSizes sends in both directions, and checks the bytes around each message.
func messageSizes(r *rig) {
	const room = 1 << 20
	active, passive := r.pair(shape{memory: room + 16})
	for _, ends := range [][2]*end{{active, passive}, {passive, active}} {
		from, to := ends[0], ends[1]
		for _, n := range []int{0, 1, 2, 3, 4, 7, 8, 1023, 1024, 1460, 4096, 65535, 65536, 65537, room} {
			fill(from.mem)
			clear(to.mem)
			to.receive(uint64(n), to.sge(8, room))
			from.post(rdma.Request{Op: rdma.OpSend, SGL: from.sge(3, n)})
			res := to.received()
			if res.Status != rdma.StatusSuccess || res.Bytes != n || res.ID != uint64(n) {
				r.Fatalf("a message of %d bytes: %+v", n, res)
			}
			if !same(to.mem[8:8+n], from.mem[3:3+n]) {
				r.Fatalf("a message of %d bytes arrives changed", n)
			}
			if !zero(to.mem[:8]) || !zero(to.mem[8+n:]) {
				r.Fatalf("a message of %d bytes wrote beside its place", n)
			}
			if res := from.sent(); res.Status != rdma.StatusSuccess {
				r.Fatalf("send: %+v", res)
			}
		}
	}
}

func messageResult(r *rig) {
	active, passive := r.pair(shape{})
	passive.receive(1<<63|5, passive.sge(0, 100))
	active.post(rdma.Request{Op: rdma.OpSend, ID: 1<<62 | 7, SGL: active.sge(0, 9)})
	got := passive.received()
	if want := (rdma.Result{Op: rdma.OpReceive, Bytes: 9, QueuePairContext: passive.context, ID: 1<<63 | 5}); got != want {
		r.Errorf("receive: %+v, want %+v", got, want)
	}
	got = active.sent()
	got.Bytes = 0
	if want := (rdma.Result{Op: rdma.OpSend, QueuePairContext: active.context, ID: 1<<62 | 7}); got != want {
		r.Errorf("send: %+v, want %+v", got, want)
	}
	active.post(rdma.Request{Op: rdma.OpWrite, ID: 11, SGL: active.sge(0, 9), Remote: passive.at(0)})
	got = active.sent()
	got.Bytes = 0
	if want := (rdma.Result{Op: rdma.OpWrite, QueuePairContext: active.context, ID: 11}); got != want {
		r.Errorf("write: %+v, want %+v", got, want)
	}
	r.empty("receives", passive.rcq)
	r.empty("others", active.icq)
}

// scatterGather sends pieces out of order, overlapping and empty, from and into several
// regions.
func scatterGather(r *rig) {
	active, passive := r.pair(shape{})
	fill(active.mem)
	other := make([]byte, 300)
	fill(other)
	second := r.region(active.adapter, other, 0)
	sink := make([]byte, 300)
	secondSink := r.region(passive.adapter, sink, rdma.AccessLocalWrite)

	sgl := []rdma.SGE{
		{Region: active.region, Offset: 500, Length: 100},
		{Region: second, Offset: 1, Length: 299},
		{Region: active.region, Offset: 450, Length: 0},
		{Region: active.region, Offset: 450, Length: 101},
	}
	into := []rdma.SGE{
		{Region: secondSink, Offset: 299, Length: 1},
		{Region: passive.region, Offset: 1000, Length: 400},
		{Region: secondSink, Offset: 0, Length: 0},
		{Region: secondSink, Offset: 7, Length: 200},
	}
	most := active.shape.sge
	sgl, into = sgl[:min(most, len(sgl))], into[:min(most, len(into))]
	var sent []byte
	for _, s := range sgl {
		sent = append(sent, s.Region.Bytes()[s.Offset:s.Offset+s.Length]...)
	}
	passive.receive(1, into)
	active.post(rdma.Request{Op: rdma.OpSend, SGL: sgl})
	res := passive.received()
	if res.Status != rdma.StatusSuccess || res.Bytes != len(sent) {
		r.Fatalf("receive of %d bytes: %+v", len(sent), res)
	}
	var got []byte
	for _, s := range into {
		got = append(got, s.Region.Bytes()[s.Offset:s.Offset+s.Length]...)
	}
	if !same(got[:len(sent)], sent) || !zero(got[len(sent):]) {
		r.Error("the pieces were not put together, or not taken apart, in order")
	}
}

// inline checks that the data may change as soon as the post returns.
func inline(r *rig) {
	active, passive := r.pair(shape{inline: 16})
	if active.shape.inline > active.adapter.Info().MaxInlineDataSize {
		r.Skip("inline data is shorter than 16 bytes")
	}
	for _, n := range []int{0, 1, 16} {
		want := make([]byte, n)
		fill(want)
		data := append([]byte(nil), want...)
		passive.receive(1, passive.sge(0, 64))
		active.post(
			rdma.Request{Op: rdma.OpWrite, Flags: rdma.FlagInline, Inline: data, Remote: passive.at(1000)},
			rdma.Request{Op: rdma.OpSend, Flags: rdma.FlagInline, Inline: data},
		)
		clear(data)
		if res := passive.received(); res.Status != rdma.StatusSuccess || res.Bytes != n {
			r.Fatalf("%d inline bytes: %+v", n, res)
		}
		if !same(passive.mem[:n], want) || !same(passive.mem[1000:1000+n], want) {
			r.Errorf("%d inline bytes were not copied by the post", n)
		}
		for range 2 {
			if res := active.sent(); res.Status != rdma.StatusSuccess {
				r.Errorf("%v: %v", res.Op, res.Status)
			}
		}
	}
	for _, op := range []rdma.Op{rdma.OpSend, rdma.OpWrite} {
		n, err := active.qp.Post([]rdma.Request{{Op: op, Flags: rdma.FlagInline, Inline: make([]byte, 17), Remote: passive.at(0)}})
		if n != 0 {
			r.Errorf("%v: took %d", op, n)
		}
		r.fails(op.String()+" of too much inline data", err, rdma.StatusBufferOverflow)
	}
	active.deliver(passive)
}

// messageOrder checks that requests of one kind complete, and are received, in order.
func messageOrder(r *rig) {
	active, passive := r.pair(shape{})
	depth := active.shape.depth
	for round := range 20 {
		var reqs []rdma.Request
		for i := range depth {
			id := uint64(round*depth + i)
			passive.receive(id, passive.sge(0, 4096))
			op := rdma.OpSend
			if i%4 == 3 {
				op = rdma.OpWrite
			}
			reqs = append(reqs, rdma.Request{Op: op, ID: id, SGL: active.sge(0, (i*977)%4096), Remote: passive.at(8192)})
		}
		active.post(reqs...)
		for i := range depth {
			if res := active.sent(); res.ID != reqs[i].ID || res.Op != reqs[i].Op || res.Status != rdma.StatusSuccess {
				r.Fatalf("result %d of round %d is %+v", i, round, res)
			}
		}
		got := uint64(round * depth)
		for i := range depth {
			if reqs[i].Op != rdma.OpSend {
				continue
			}
			res := passive.received()
			if res.ID != got || res.Bytes != (i*977)%4096 {
				r.Fatalf("message %d of round %d is received as %+v, want ID %d", i, round, res, got)
			}
			got++
		}
		// The writes consumed no receive. Use up the rest.
		for ; got < uint64((round+1)*depth); got++ {
			active.post(rdma.Request{Op: rdma.OpSend, Flags: rdma.FlagSilentSuccess})
			if res := passive.received(); res.ID != got {
				r.Fatalf("receive %+v, want ID %d", res, got)
			}
		}
		passive.receive(0, nil)
		active.post(rdma.Request{Op: rdma.OpSend})
		active.sent()
		passive.received()
	}
}

// silentSuccess checks that one result per queue depth is enough to continue.
func silentSuccess(r *rig) {
	active, passive := r.pair(shape{})
	depth := active.shape.depth
	for round := range 5 {
		for i := range depth {
			flags := rdma.FlagSilentSuccess
			if i == depth-1 {
				flags = 0
			}
			passive.receive(uint64(i), nil)
			active.post(rdma.Request{Op: rdma.OpSend, Flags: flags, ID: uint64(i)})
		}
		if res := active.sent(); res.ID != uint64(depth-1) || res.Status != rdma.StatusSuccess {
			r.Fatalf("round %d: result %+v, want only that of request %d", round, res, depth-1)
		}
		for i := range depth {
			if res := passive.received(); res.ID != uint64(i) {
				r.Fatalf("receive %+v, want ID %d", res, i)
			}
		}
		r.empty("results of silent requests", active.icq)
	}
}

// readFence checks that the flag changes nothing without reads.
func readFence(r *rig) {
	active, passive := r.pair(shape{})
	fill(active.mem)
	passive.receive(1, passive.sge(0, 8))
	active.post(
		rdma.Request{Op: rdma.OpWrite, Flags: rdma.FlagReadFence, SGL: active.sge(0, 64), Remote: passive.at(64)},
		rdma.Request{Op: rdma.OpSend, Flags: rdma.FlagReadFence, SGL: active.sge(0, 8)},
	)
	if res := passive.received(); res.Status != rdma.StatusSuccess || !same(passive.mem[64:128], active.mem[:64]) {
		r.Errorf("receive after a fenced write: %+v", res)
	}
}

func receiveBeforeConnect(r *rig) {
	active, passive := r.end(r.adapter(), shape{}), r.end(r.adapter(), shape{})
	active.receive(10, active.sge(0, 8))
	active.receive(11, active.sge(8, 8))
	r.join(active, passive)
	fill(passive.mem)
	for i := range 2 {
		passive.post(rdma.Request{Op: rdma.OpSend, SGL: passive.sge(8*i, 8)})
		if res := active.received(); res.Status != rdma.StatusSuccess || res.ID != uint64(10+i) {
			r.Errorf("receive %d: %+v", i, res)
		}
	}
	if !same(active.mem[:16], passive.mem[:16]) {
		r.Error("the messages arrive changed")
	}
}
