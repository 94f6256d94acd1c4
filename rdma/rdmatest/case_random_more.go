package rdmatest

import (
	"encoding/binary"

	"pgregory.net/rapid"

	"lwio/rdma"
)

// The steps of the model for operations that an adapter may lack.

// window binds a window to a part of the half that the peer writes, for one write.
func (m *model) window(t *rapid.T) {
	m.settle(t)
	side := rapid.IntRange(0, 1).Draw(t, "side")
	e, peer := m.ends[side], m.ends[1-side]
	sgl, data := m.drawSGL(t, side, modelMemory/2)
	at := rapid.IntRange(0, modelMemory/2-len(data)).Draw(t, "at")
	before := rapid.IntRange(0, at).Draw(t, "before")
	if m.windows[1-side] == nil {
		m.windows[1-side] = peer.window()
	}
	w := m.windows[1-side]
	remote := peer.bind(w, at-before, before+len(data), allowWrite)
	remote.Addr += uint64(before)
	e.post(rdma.Request{Op: rdma.OpWrite, SGL: sgl, Remote: remote})
	e.deliver(peer)
	peer.invalidate(w)
	copy(m.want[1-side][at:], data)
	m.compare(t, 1-side)
}

// immediate writes with immediate data, which consumes a receive of the peer.
func (m *model) immediate(t *rapid.T) {
	side := rapid.IntRange(0, 1).Draw(t, "side")
	e, peer := m.ends[side], m.ends[1-side]
	flags := m.flags(t, side) | rdma.FlagImmediate
	sgl, data := m.drawSGL(t, side, modelMemory/2)
	at := rapid.IntRange(0, modelMemory/2-len(data)).Draw(t, "at")
	value := rapid.Uint32().Draw(t, "value")
	peer.receive(1, nil)
	e.post(rdma.Request{Op: rdma.OpWrite, Flags: flags, SGL: sgl, Remote: peer.at(at), Immediate: value})
	if res := peer.received(); res.Status != rdma.StatusSuccess || !res.HasImmediate || res.Immediate != value {
		t.Fatalf("immediate data %#x: %+v", value, res)
	}
	copy(m.want[1-side][at:], data)
	m.compare(t, 1-side)
}

// fetchAdd adds to a number in the half that the peer writes, and fetches the old value
// into the same half of its own memory.
func (m *model) fetchAdd(t *rapid.T) {
	m.settle(t)
	side := rapid.IntRange(0, 1).Draw(t, "side")
	e, peer := m.ends[side], m.ends[1-side]
	at := 8 * rapid.IntRange(0, modelMemory/16-1).Draw(t, "word")
	sink := rapid.IntRange(0, modelMemory/2-8).Draw(t, "sink")
	add := rapid.Uint64().Draw(t, "add")
	e.post(rdma.Request{Op: rdma.OpFetchAdd, ID: 3, SGL: e.sge(sink, 8), Remote: peer.at(at), Atomic: rdma.Atomic{Value: add}})
	if res := e.sent(); res.Status != rdma.StatusSuccess || res.ID != 3 {
		t.Fatalf("fetch and add: %+v", res)
	}
	word := m.want[1-side][at : at+8]
	was := binary.NativeEndian.Uint64(word)
	binary.NativeEndian.PutUint64(word, was+add)
	binary.NativeEndian.PutUint64(m.want[side][sink:], was)
	m.compare(t, 0)
	m.compare(t, 1)
}
