package nbd

import "testing"

// An arena has a bound, small and large blocks share it, and its memory is free at the end.
func TestArenaIsBounded(t *testing.T) {
	r := start(t, rigConfig{})
	a := arena{client: r.share.Client(nil), freed: make(chan struct{}, 1)}
	defer a.close()
	take := func(n int) block {
		t.Helper()
		b, ok, err := a.alloc(t.Context(), n)
		if err != nil || !ok || len(b.p) != n {
			t.Fatalf("%d bytes: %d, %v, %v", n, len(b.p), ok, err)
		}
		return b
	}
	refused := func(n int) {
		t.Helper()
		if _, ok, err := a.alloc(t.Context(), n); ok || err != nil {
			t.Fatalf("%d bytes: %v, %v", n, ok, err)
		}
	}
	large := []block{take(maxRequest), take(maxRequest)}
	refused(1)
	refused(maxRequest)
	a.release(large[0], false)
	<-a.freed
	var small []block
	for range maxRequest / poolSize {
		small = append(small, take(poolSize))
	}
	refused(1)
	for _, b := range small {
		a.release(b, false)
	}
	large[0] = take(maxRequest) // in place of the empty pools
	if len(a.pools) != 0 || a.size != arenaSize {
		t.Errorf("%d pools, %d bytes", len(a.pools), a.size)
	}
	for _, b := range large {
		a.release(b, false)
	}
	first, second := take(1), take(arenaUnit+1)
	if &first.p[0] == &second.p[0] || a.size != poolSize {
		t.Errorf("%d bytes", a.size)
	}
	a.release(first, true) // the server is done with it
	a.release(second, false)
	if len(a.pools) != 1 {
		t.Errorf("%d pools", len(a.pools))
	}
	a.close()
	if a.size != 0 {
		t.Errorf("%d bytes at the end", a.size)
	}
}
