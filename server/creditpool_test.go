package server

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// The pool never grants more than its budget, and a user never more than three quarters, except for
// the first credit of each connection. It loses none.
//
// Source: [OP-69]
func TestCreditPoolModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p creditPool
		p.init(rapid.IntRange(1, 40).Draw(t, "budget"))
		var held []int
		var holders []creditHolder
		sum := func(user string) (n int) { // of all users for ""
			for i, h := range held {
				if user == "" || holders[i].user == user {
					n += h * holders[i].weight
				}
			}
			return n
		}
		exceeds := func(h creditHolder, n int) bool {
			return sum("")+n*h.weight > p.budget() || sum(h.user)+n*h.weight > p.budget()-p.budget()/4
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			hint := rapid.IntRange(1, 30).Draw(t, "hint")
			i := 0
			if len(held) > 0 {
				i = rapid.IntRange(0, len(held)-1).Draw(t, "connection")
			}
			before := sum("")
			switch step := rapid.IntRange(0, 4).Draw(t, "step"); {
			case step == 0 || len(held) == 0:
				h := creditHolder{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "user"), rapid.SampledFrom([]int{1, 1, 3, 16}).Draw(t, "weight")}
				n := p.first(hint, h)
				if n < 1 || n > hint || n > 1 && exceeds(h, n) {
					t.Fatalf("first(%d) is %d with %d of %d given", hint, n, before, p.budget())
				}
				held, holders = append(held, n), append(holders, h)
			case step == 1:
				spare := rapid.IntRange(0, held[i]-1).Draw(t, "spare") // of held
				n, fresh := p.grow(held[i]-spare, spare, hint, holders[i])
				if n < 0 || n > 0 && held[i]-spare+n > hint || fresh != max(n-spare, 0) || fresh > 0 && exceeds(holders[i], fresh) {
					t.Fatalf("grow(%d, %d, %d) is %d, %d fresh, with %d of %d given", held[i]-spare, spare, hint, n, fresh, before, p.budget())
				}
				held[i] += fresh
			case step == 2:
				p.give(held[i], holders[i])
				held, holders = append(held[:i], held[i+1:]...), append(holders[:i], holders[i+1:]...)
			case step == 3:
				if p.look(map[string]int{"a": hint}) {
					if s := p.share(hint, creditHolder{"a", 1}); s != int(p.sum.UserLimit()) {
						t.Fatalf("a connection with all hints may hold %d of %d", s, p.sum.UserLimit())
					}
				}
			default:
				n := rapid.IntRange(0, held[i]-1).Draw(t, "back")
				p.give(n, holders[i])
				held[i] -= n
			}
			if int(p.sum.Held()) != sum("") {
				t.Fatalf("%d given, %d in the books", sum(""), int(p.sum.Held()))
			}
		}
	})
}

// The first grants leave credits for connections that turn out to need more, and the first
// connection that gets none triggers a balance, once.
//
// Source: [OP-74c]
func TestFirstGrantsLeaveSomething(t *testing.T) {
	var p creditPool
	p.init(8192)
	var grants []int
	for i := range 1000 {
		grants = append(grants, p.first(32, creditHolder{fmt.Sprint(i % 10), 1}))
	}
	if grants[0] != 32 || grants[100] < 16 || grants[500] < 4 || grants[999] != 1 || int(p.sum.Held()) >= p.budget() {
		t.Errorf("%d of %d are given, first %d, %d, %d, %d", int(p.sum.Held()), p.budget(), grants[0], grants[100], grants[500], grants[999])
	}
	if p.look(nil) {
		t.Error("small first grants are taken for need")
	}
	one, other := creditHolder{"0", 1}, creditHolder{"1", 1}
	grow := func(grant, want int, h creditHolder) int {
		n, _ := p.grow(grant, 0, want, h)
		return n
	}
	grow(1, p.budget(), one)
	if n := grow(1, 4, one) + grow(2, 4, other); n != 0 || len(p.exhausted) != 1 {
		t.Errorf("%d signals of an exhausted pool", len(p.exhausted))
	}
	<-p.exhausted
	if !p.look(map[string]int{"0": 100}) || grow(1, 4, one) != 0 || len(p.exhausted) != 0 {
		t.Error("a known need is signalled again")
	}
}
