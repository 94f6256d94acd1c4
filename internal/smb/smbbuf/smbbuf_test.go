package smbbuf

import (
	"testing"

	"lwio/internal/account"
)

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
	sum := account.NewSum(1000, 0)
	a := account.NewAccount(sum, 0)
	b := p.Get(1 << 10)
	var ok bool
	if b.Charge, ok = a.TryCharge("user", 100, account.Last); !ok || sum.HeldBy("user") != 100 {
		t.Fatalf("%d bytes are charged, want 100", sum.HeldBy("user"))
	}
	b.Free()
	b.Free()
	p.Get(1 << 10).Free()
	if n := sum.Held(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
	(*Buffer)(nil).Free()
}

// The memory of a buffer is at most about twice its length.
func TestSizeIsTheMemoryOfABuffer(t *testing.T) {
	var p Pool
	for n := 1; n < 10<<20; n += n/3 + 1 {
		got := cap(p.Get(n).B)
		if got != Size(n) || got < n || got > max(2*n+2<<10, 1<<10) {
			t.Errorf("Get(%d) has %d bytes, Size says %d", n, got, Size(n))
		}
	}
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
