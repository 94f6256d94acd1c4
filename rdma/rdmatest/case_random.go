package rdmatest

import (
	"bytes"

	"pgregory.net/rapid"

	"lwio/rdma"
)

var randomCases = []Case{
	{Name: "random/model", Source: "[ND QueuePair]", run: randomOperations},
}

// randomOperations compares both memories with a model, after random writes and messages
// in both directions. -rapid.checks and -rapid.steps set its length; -short makes it a
// fifth.
func randomOperations(r *rig) {
	rapid.Check(r, func(t *rapid.T) {
		m := newModel(r)
		defer m.close()
		steps := map[string]func(*rapid.T){
			"write":  m.write,
			"send":   m.send,
			"inline": m.inline,
			"":       m.check,
		}
		for name, more := range map[string]struct {
			needs rdma.Caps
			step  func(*rapid.T)
		}{
			"read":      {rdma.CapRead, m.read},
			"window":    {rdma.CapWindows, m.window},
			"immediate": {rdma.CapImmediate, m.immediate},
			"fetch-add": {rdma.CapAtomics, m.fetchAdd},
		} {
			if m.ends[0].adapter.Info().Caps.Has(more.needs) {
				steps[name] = more.step
			}
		}
		t.Repeat(steps)
		m.settle(t)
	})
}

// modelMemory is the size of each side's memory. The peer writes the first half; the
// second half is the source of writes and messages.
const modelMemory = 8 << 10

// model is a connection and the expected content of its two memories.
type model struct {
	r      *rig
	ends   [2]*end
	want   [2][]byte
	posted [2]int // requests since the side's queue was last empty
	// windows are the windows that the steps need, per side, or nil.
	windows [2]rdma.MemoryWindow
}

func newModel(r *rig) *model {
	a, p := r.pair(shape{memory: modelMemory, depth: 32, access: readable})
	m := &model{r: r, ends: [2]*end{a, p}}
	for i, e := range m.ends {
		fill(e.mem[modelMemory/2:])
		m.want[i] = bytes.Clone(e.mem)
	}
	return m
}

// close frees the objects of one run. The case has many runs.
func (m *model) close() {
	for _, e := range m.ends {
		m.r.closeNow("adapter", e.adapter)
	}
}

// drawSGL picks pieces of the source half with at most n bytes together, and returns them
// and their bytes.
func (m *model) drawSGL(t *rapid.T, side, n int) (sgl []rdma.SGE, data []byte) {
	e := m.ends[side]
	for range rapid.IntRange(0, e.shape.sge).Draw(t, "pieces") {
		length := rapid.IntRange(0, n).Draw(t, "length")
		off := modelMemory/2 + rapid.IntRange(0, modelMemory/2-length).Draw(t, "source")
		sgl = append(sgl, rdma.SGE{Region: e.region, Offset: off, Length: length})
		data = append(data, m.want[side][off:off+length]...)
		n -= length
	}
	return sgl, data
}

// flags picks a flag that must have no effect, and makes room in the queue.
func (m *model) flags(t *rapid.T, side int) rdma.Flags {
	if m.posted[side]++; m.posted[side] == m.ends[side].shape.depth {
		m.settle(t)
	}
	if rapid.Bool().Draw(t, "silent") {
		return rdma.FlagSilentSuccess
	}
	return 0
}

func (m *model) write(t *rapid.T) {
	side := rapid.IntRange(0, 1).Draw(t, "side")
	peer := m.ends[1-side]
	flags := m.flags(t, side)
	sgl, data := m.drawSGL(t, side, modelMemory/2)
	at := rapid.IntRange(0, modelMemory/2-len(data)).Draw(t, "at")
	m.ends[side].post(rdma.Request{Op: rdma.OpWrite, Flags: flags, SGL: sgl, Remote: peer.at(at)})
	copy(m.want[1-side][at:], data)
}

func (m *model) inline(t *rapid.T) {
	side := rapid.IntRange(0, 1).Draw(t, "side")
	e, peer := m.ends[side], m.ends[1-side]
	flags := m.flags(t, side) | rdma.FlagInline
	data := rapid.SliceOfN(rapid.Byte(), 0, e.shape.inline).Draw(t, "data")
	at := rapid.IntRange(0, modelMemory/2-len(data)).Draw(t, "at")
	e.post(rdma.Request{Op: rdma.OpWrite, Flags: flags, Inline: data, Remote: peer.at(at)})
	copy(m.want[1-side][at:], data)
}

// send delivers a message into the half that the peer writes.
func (m *model) send(t *rapid.T) {
	side := rapid.IntRange(0, 1).Draw(t, "side")
	e, peer := m.ends[side], m.ends[1-side]
	flags := m.flags(t, side)
	sgl, data := m.drawSGL(t, side, 2048)
	room := len(data) + rapid.IntRange(0, 100).Draw(t, "spare")
	at := rapid.IntRange(0, modelMemory/2-room).Draw(t, "at")
	peer.receive(1, peer.sge(at, room))
	e.post(rdma.Request{Op: rdma.OpSend, Flags: flags, SGL: sgl})
	if res := peer.received(); res.Status != rdma.StatusSuccess || res.Bytes != len(data) {
		t.Fatalf("message of %d bytes: %+v", len(data), res)
	}
	copy(m.want[1-side][at:], data)
	m.compare(t, 1-side)
}

// read reads any part of the peer's memory into the half that the peer writes, while no
// other request for that half is in flight.
func (m *model) read(t *rapid.T) {
	m.settle(t)
	side := rapid.IntRange(0, 1).Draw(t, "side")
	e, peer := m.ends[side], m.ends[1-side]
	n := rapid.IntRange(0, modelMemory/2).Draw(t, "length")
	from := rapid.IntRange(0, modelMemory-n).Draw(t, "from")
	at := rapid.IntRange(0, modelMemory/2-n).Draw(t, "at")
	e.post(rdma.Request{Op: rdma.OpRead, ID: 1, SGL: e.sge(at, n), Remote: peer.at(from)})
	if res := e.sent(); res.Status != rdma.StatusSuccess || res.ID != 1 {
		t.Fatalf("read of %d bytes: %+v", n, res)
	}
	copy(m.want[side][at:at+n], m.want[1-side][from:])
	m.compare(t, side)
}

// settle waits until all posted requests have taken effect.
func (m *model) settle(t *rapid.T) {
	for i, e := range m.ends {
		e.deliver(m.ends[1-i])
		m.posted[i] = 0
		m.compare(t, 1-i)
	}
}

// check runs between the steps. It settles only in one of 16 calls.
func (m *model) check(t *rapid.T) {
	if rapid.IntRange(0, 15).Draw(t, "look") == 0 {
		m.settle(t)
	}
}

// compare compares the memory of one side with the model. No request for that memory is
// in flight.
func (m *model) compare(t *rapid.T, side int) {
	if got, want := m.ends[side].mem, m.want[side]; !same(got, want) {
		i := 0
		for got[i] == want[i] {
			i++
		}
		t.Fatalf("side %d, byte %d: %#x, want %#x", side, i, got[i], want[i])
	}
}
