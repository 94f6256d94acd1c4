package main

import "testing"

// A read returns the last write of a block, or a write that may have been done after it.
func TestLedgerChecksReads(t *testing.T) {
	const n = 4
	content := func(writes ...uint64) []byte {
		p := make([]byte, n*blockSize)
		for i, w := range writes {
			fill(p[i*blockSize:][:blockSize], 7, 10+i, w)
		}
		return p
	}
	l := newLedger(7, 10, n)
	try := func(what string, v view, want bool, writes ...uint64) {
		t.Helper()
		if err := l.check(v, content(writes...), 0); (err == nil) != want {
			t.Errorf("%s: %v: %v", what, writes, err)
		}
	}
	before := l.view(0, n)
	try("nothing written", before, true, 0, 0, 0, 0)
	try("nothing written", before, false, 0, 0, 0, 1)
	l.end(l.begin(), 0, n, 2, true)
	try("written meanwhile", before, true, 1, 0, 1, 0)
	try("half done, half late", l.view(0, n), true, 1, 1, 0, 1)
	try("half done, half late", l.view(0, n), false, 0, 1, 0, 1)
	l.end(l.begin(), 0, n, n, false)
	try("over late blocks", l.view(0, n), true, 2, 2, 1, 2)
	l.settle()
	l.end(l.begin(), 0, n, n, false)
	try("after that", l.view(0, n), false, 3, 3, 1, 3)
	try("after that", l.view(0, n), true, 3, 3, 3, 3)
	p := content(3, 3, 3, 3)
	p[blockSize+100] ^= 1
	if l.check(l.view(0, n), p, 0) == nil {
		t.Error("a wrong bit is not seen")
	}
	p = content(3, 3, 3, 3)
	copy(p, p[blockSize:2*blockSize])
	if l.check(l.view(0, n), p, 0) == nil {
		t.Error("a block of another place is not seen")
	}
}

// Only growth that continues after the first rounds is an error.
func TestGrownSeesSteadyGrowth(t *testing.T) {
	rounds := func(of ...int64) (list []footprint) {
		for _, v := range of {
			list = append(list, footprint{Resident: v << 20})
		}
		return list
	}
	for _, calm := range [][]footprint{nil, rounds(1, 50, 100, 100, 100, 100), rounds(0, 0, 100, 80, 110, 90, 100)} {
		if err := grown("test", calm); err != nil {
			t.Error(err)
		}
	}
	if grown("test", rounds(0, 0, 100, 110, 120, 130)) == nil {
		t.Error("growth is not seen")
	}
}
