package smbbuf

import "testing"

// given counts the returned bytes of each user.
type given map[string]int

func (g given) Give(user string, n int) { g[user] += n }

func TestGetReturnsTheLength(t *testing.T) {
	var p Pool
	for _, n := range []int{0, 1, 1 << 10, 1<<10 + 1, 70 << 10, 1 << 20, 8<<20 + 1, 9 << 20} {
		b := p.Get(n)
		if len(b.B) != n {
			t.Errorf("Get(%d) has %d bytes", n, len(b.B))
		}
		b.B = append(b.B[:0], make([]byte, 1000)...)
		b.Free()
		if b = p.Get(n); len(b.B) != n {
			t.Errorf("the second Get(%d) has %d bytes", n, len(b.B))
		}
	}
}

func TestFreeReturnsTheChargeOnce(t *testing.T) {
	var p Pool
	g := given{}
	b := p.Get(1 << 10)
	b.Charge(g, "user", 100)
	b.Free()
	b.Free()
	p.Get(1 << 10).Free()
	if g["user"] != 100 {
		t.Errorf("%d bytes were returned, want 100", g["user"])
	}
	(*Buffer)(nil).Free()
}

func TestGrownBufferIsNotPooled(t *testing.T) {
	var p Pool
	b := p.Get(1 << 10)
	b.B = append(b.B, 1)
	b.Free()
	if c := p.Get(1 << 10); c == b {
		t.Error("the pool has taken a buffer that is larger than its class")
	}
}
