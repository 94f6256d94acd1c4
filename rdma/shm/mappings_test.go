//go:build linux

package shm

import (
	"testing"
	"time"

	"lwio/rdma"
)

// While a slot that the peer announces again is still in use, other lookups succeed.
// Source: design decision 11
func TestReannouncedSlotDoesNotBlockLookups(t *testing.T) {
	active, passive := connected(t, nil, 1<<16)
	_, other := passive.alloc(t, 4096)
	active.introduce(t, passive.region)
	active.introduce(t, other)
	c := active.inside()
	at := passive.at(0)
	g := c.mappings.find(uint32(at.Token))
	thaw := active.freeze(passive.region)
	n := notice{kind: noticeShare, memory: passive.inside().exports.used[g.slot].id, slot: uint32(g.slot), token: uint32(at.Token), size: 1 << 16}
	added := make(chan error, 1)
	go func() { added <- c.mappings.add(&n, nil) }()
	eventually(t, "the slot is forgotten", g.gone.Load)
	free := make(chan bool, 1)
	go func() {
		free <- c.mappings.find(uint32(other.RemoteAddr().Token)+2) == nil && c.mappings.knows(uint32(other.RemoteAddr().Token))
	}()
	select {
	case ok := <-free:
		if !ok {
			t.Error("an existing token is not found, or a missing one is")
		}
	case <-time.After(patience):
		t.Error("a lookup waits for a copy")
	}
	select {
	case err := <-added:
		t.Errorf("the slot was given away while in use: %v", err)
	default:
	}
	thaw()
	if err := <-added; err != nil || !c.mappings.knows(uint32(at.Token)) {
		t.Errorf("announce again: %v", err)
	}
	if res := active.write(t, rdma.Request{SGL: active.sge(0, 8), Remote: at}); res.Status != rdma.StatusSuccess {
		t.Error(res.Status)
	}
}
