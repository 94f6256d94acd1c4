package fault

import (
	"context"
	"net/netip"
	"slices"
	"testing"

	"lwio/rdma"
)

// Results keep their order within a line, and may have any order between lines.
//
// Source: [ND QueuePair §Ordering]
func TestMixKeepsOrderWithinLine(t *testing.T) {
	lines := []lineOf{{1, false}, {1, false}, {1, true}, {2, false}, {1, true}, {2, false}}
	orders := make(map[string]bool)
	for seed := range uint64(200) {
		var results []rdma.Result
		for i := range lines {
			results = append(results, rdma.Result{ID: uint64(i)})
		}
		newDice(seed, 0).mix(results, lines)
		last, order := make(map[lineOf]uint64), ""
		for _, r := range results {
			l := lines[r.ID]
			if before, ok := last[l]; ok && before >= r.ID {
				t.Fatalf("seed %d: %v", seed, results)
			}
			last[l] = r.ID
			order += string(rune('0' + r.ID))
		}
		orders[order] = true
	}
	if len(orders) < 50 {
		t.Errorf("only %d orders of 90", len(orders))
	}
}

// taker is a wrapped provider whose adapter has one queue pair, which keeps posted
// requests.
type taker struct {
	rdma.Provider
	pair takingPair
}

func (k *taker) OpenAdapter(context.Context, netip.Addr) (rdma.Adapter, error) {
	return takingAdapter{k: k}, nil
}

type takingAdapter struct {
	rdma.Adapter
	k *taker
}

func (a takingAdapter) CreateQueuePair(rdma.QueuePairConfig) (rdma.QueuePair, error) {
	return &a.k.pair, nil
}

func (takingAdapter) Info() rdma.AdapterInfo {
	return rdma.AdapterInfo{MaxTransferLength: 1 << 20}
}

func (takingAdapter) RegisterMemory(context.Context, []byte, rdma.Access) (rdma.MemoryRegion, error) {
	return takenRegion{}, nil
}

type takingPair struct {
	rdma.QueuePair
	reqs []rdma.Request
}

func (q *takingPair) Post(reqs []rdma.Request) (int, error) {
	q.reqs = append(q.reqs, reqs...)
	return len(reqs), nil
}

type takenRegion struct{ rdma.MemoryRegion }

func (takenRegion) Bytes() []byte { return make([]byte, 100) }

// postedWith returns the addresses of requests in the order in which the wrapper posts
// them.
func postedWith(t *testing.T, seed uint64, depth int, build func(m rdma.MemoryRegion) []rdma.Request) []uint64 {
	t.Helper()
	k := new(taker)
	a, err := Wrap(k, &Config{Shuffle: seed}).OpenAdapter(t.Context(), netip.Addr{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := a.RegisterMemory(t.Context(), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	qp, err := a.CreateQueuePair(rdma.QueuePairConfig{InitiatorDepth: depth, MaxInitiatorSGE: 1, InlineSize: 8})
	if err != nil {
		t.Fatal(err)
	}
	reqs := build(m)
	if n, err := qp.Post(reqs); n != len(reqs) || err != nil {
		t.Fatal(n, err)
	}
	var got []uint64
	for i, r := range k.pair.reqs {
		if r.ID != uint64(i+1) || r.Flags&rdma.FlagSilentSuccess != reqs[i].Flags&rdma.FlagSilentSuccess {
			t.Errorf("request %d has number %d and flags %v", i, r.ID, r.Flags)
		}
		got = append(got, r.Remote.Addr)
	}
	return got
}

// write writes 10 bytes to an address.
func write(m rdma.MemoryRegion, to uint64) rdma.Request {
	return rdma.Request{Op: rdma.OpWrite, SGL: []rdma.SGE{{Region: m, Length: 10}}, Remote: rdma.RemoteAddr{Addr: to}}
}

// Writes of one call change places if no rule orders them. The same seed gives the same
// order.
//
// Source: [ND QueuePair §Ordering]
func TestShuffleMovesUnorderedWrites(t *testing.T) {
	for _, c := range []struct {
		name  string
		depth int
		build func(m rdma.MemoryRegion) []rdma.Request
		// groups are ranges in which requests may change places.
		groups [][2]int
	}{
		{"writes before a send", 16, func(m rdma.MemoryRegion) []rdma.Request {
			silent := write(m, 2)
			silent.Remote.Token, silent.Flags = 1, rdma.FlagSilentSuccess
			return []rdma.Request{write(m, 0), silent, write(m, 20), {Op: rdma.OpSend, Remote: rdma.RemoteAddr{Addr: 99}}, write(m, 40), write(m, 50)}
		}, [][2]int{{0, 3}, {4, 6}}},
		{"the same place", 16, func(m rdma.MemoryRegion) []rdma.Request {
			return []rdma.Request{write(m, 0), write(m, 9), write(m, 0), write(m, 9)}
		}, nil},
		{"a fence", 16, func(m rdma.MemoryRegion) []rdma.Request {
			fenced := write(m, 20)
			fenced.Flags = rdma.FlagReadFence
			return []rdma.Request{write(m, 0), fenced, write(m, 40)}
		}, nil},
		{"memory that is none", 16, func(m rdma.MemoryRegion) []rdma.Request {
			bad := write(m, 20)
			bad.SGL[0].Length = 101
			return []rdma.Request{write(m, 0), bad, write(m, 40)}
		}, nil},
		{"no room for all", 2, func(m rdma.MemoryRegion) []rdma.Request {
			return []rdma.Request{write(m, 0), write(m, 20), write(m, 40)}
		}, [][2]int{{0, 2}}},
	} {
		moved := false
		for seed := uint64(1); seed <= 20; seed++ {
			got := postedWith(t, seed, c.depth, c.build)
			if again := postedWith(t, seed, c.depth, c.build); !slices.Equal(got, again) {
				t.Errorf("%s: seed %d gives %v and %v", c.name, seed, got, again)
			}
			var plain []uint64
			for _, r := range c.build(takenRegion{}) {
				plain = append(plain, r.Remote.Addr)
			}
			moved = moved || !slices.Equal(got, plain)
			for _, g := range c.groups {
				slices.Sort(got[g[0]:g[1]])
				slices.Sort(plain[g[0]:g[1]])
			}
			if !slices.Equal(got, plain) {
				t.Errorf("%s: seed %d gives %v", c.name, seed, got)
			}
		}
		if moved != (c.groups != nil) {
			t.Errorf("%s: moved is %v", c.name, moved)
		}
	}
}

// A wrapper that reorders does not claim in-order placement.
func TestShuffleTakesTheOrderAway(t *testing.T) {
	a := &adapter{p: Wrap(nil, &Config{Shuffle: 1}), inner: ordered{}}
	if caps := a.Info().Caps; caps != rdma.CapRead {
		t.Errorf("capabilities %#x", caps)
	}
}

type ordered struct{ rdma.Adapter }

func (ordered) Info() rdma.AdapterInfo {
	return rdma.AdapterInfo{Caps: rdma.CapInOrderPlacement | rdma.CapRead}
}
