package server

import (
	"runtime"
	"testing"

	"lwio/internal/test/skip"
	"lwio/internal/wire"
)

// A peer over TCP that connects and does not authenticate costs less than 64 KiB: the objects and
// the goroutines of both ends, and the one receive that the server posts before AUTH.
//
// Source: [LWIO §Connection Authentication] (the limit is ours)
func TestUnauthenticatedRDMAPeerHoldsLessThan64KiB(t *testing.T) {
	if raceEnabled {
		skip.Test(t, "the race detector takes memory for each object")
	}
	const peers = 100
	v := newEnv(t, envConfig{on: "iwarp", limits: Limits{Unauthenticated: 2 * peers}})
	n := v.negotiate(v.sess)
	v.connect(n) // allocates the memory that all connections share
	before := heapInUse()
	for range peers {
		v.connect(n)
	}
	if got := v.e.count.unauthenticated.Load(); got != peers+1 {
		t.Fatalf("%d peers are connected", got)
	}
	if held := v.e.credits.sum.Usage(); held.Held != 0 {
		t.Errorf("receives are charged before AUTH: %+v", held)
	}
	each := int64(heapInUse()-before)/peers + wire.HeaderSize + authRoom
	if each > 64<<10 {
		t.Errorf("%d bytes for each peer", each)
	}
}

// heapInUse returns the bytes of live objects and of stacks, without the free buffers of pools.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC() // the first one leaves the objects of pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
