package softrdma

import (
	"context"
	"errors"
	"net"
	"testing"

	"lwio/rdma"
)

// object records the order of its close.
type object struct {
	d     *Domain
	class Class
	order *[]Class
}

func (o *object) Close() error {
	*o.order = append(*o.order, o.class)
	o.d.Remove(o.class, o)
	return nil
}

// Close closes remaining objects class by class, and waits for work in the background.
//
// Source: [ND Adapter]
func TestDomainClosesClassByClass(t *testing.T) {
	d := NewDomain("soft")
	var order []Class
	for class := numClasses - 1; class >= 0; class-- {
		for range 2 {
			if err := d.Add(class, &object{d, class, &order}, "make"); err != nil {
				t.Fatal(err)
			}
		}
	}
	gone := &object{d, Regions, &order}
	if err := d.Add(Regions, gone, "make"); err != nil {
		t.Fatal(err)
	}
	d.Remove(Regions, gone)
	done, release := false, make(chan struct{})
	d.Background(func() { <-release; done = true })
	close(release)
	for range 2 {
		if err := d.Close(); err != nil || !done {
			t.Fatal(err, done)
		}
	}
	if len(order) != 2*int(numClasses) {
		t.Fatal(order)
	}
	for i, class := range order {
		if class != Class(i/2) {
			t.Fatal("out of order:", order)
		}
	}
	if err := d.Add(Regions, gone, "make"); !errors.Is(err, net.ErrClosed) || rdma.StatusOf(err) != rdma.StatusInvalidHandle {
		t.Error(err)
	}
	done = false
	if d.Background(func() { done = true }); !done {
		t.Error("work after Close was not done at once")
	}
}

// closerFunc is an object whose Close calls a function.
type closerFunc struct{ close func() }

func (c *closerFunc) Close() error { c.close(); return nil }

// Background work of two closed objects runs concurrently.
//
// Source: [ND Adapter]
func TestBackgroundWorkRunsConcurrently(t *testing.T) {
	d := NewDomain("soft")
	meet := make(chan struct{})
	begin := func() { d.Background(func() { meet <- struct{}{} }) }
	answer := func() { d.Background(func() { <-meet }) }
	for i, f := range []func(){begin, answer} {
		if err := d.Add(Class(i), &closerFunc{f}, "make"); err != nil {
			t.Fatal(err)
		}
	}
	d.Close()
}

// Source: [ND Status codes]
func TestDomainErrorsNameTheFabric(t *testing.T) {
	d := NewDomain("soft")
	if got := d.Error("post", "send", rdma.StatusNoMoreEntries, nil).Error(); got != "soft: post send: queue full" {
		t.Error(got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Canceled(ctx, "notify", "queue"); err.Error() != "soft: notify queue: canceled: context canceled" || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Keys differ from each other, and no bit is constant.
//
// Source: [RFC 5042 §6.1.1]
func TestKeysDifferInEveryBit(t *testing.T) {
	var a, b Keys
	seen := make(map[uint64]bool)
	ones, zeros := uint64(0), uint64(0)
	for range 1000 {
		for _, k := range []*Keys{&a, &b} {
			v := k.Uint64()
			if seen[v] {
				t.Fatal("comes twice")
			}
			seen[v] = true
			ones, zeros = ones|v, zeros|^v
		}
	}
	if ones != ^uint64(0) || zeros != ^uint64(0) {
		t.Errorf("bits that never change: %x %x", ^ones, ^zeros)
	}
	if n := testing.AllocsPerRun(100, func() { a.Uint64() }); n != 0 {
		t.Error(n, "allocations")
	}
}

// Elements keep their order and their slots while the queue grows.
func TestFIFOKeepsOrderAndSlots(t *testing.T) {
	var f FIFO[int]
	var slots []*int
	next := 0
	for i := range 100 {
		for range i % 7 {
			slots = append(slots, f.Push())
			*slots[next] = next
			next++
		}
		for range i % 5 {
			if f.Len() == 0 {
				break
			}
			if at := f.At(f.Head); *at != int(f.Head) || at != slots[f.Head] {
				t.Fatalf("element %d is %d, at %p, and was made at %p", f.Head, *at, at, slots[f.Head])
			}
			f.Head++
		}
	}
	if int(f.Tail) != next {
		t.Error(f.Tail, next)
	}
}
