package server

import (
	"testing"

	"pgregory.net/rapid"
)

// The pool never grants more than its budget, except for the first credit of each connection,
// and loses none.
//
// Source: [OP-69]
func TestCreditPoolModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := creditPool{budget: rapid.IntRange(1, 40).Draw(t, "budget")}
		var held, weights []int
		sum := func() (n int) {
			for i, h := range held {
				n += h * weights[i]
			}
			return n
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			hint := rapid.IntRange(1, 30).Draw(t, "hint")
			i := 0
			if len(held) > 0 {
				i = rapid.IntRange(0, len(held)-1).Draw(t, "connection")
			}
			before := sum()
			switch step := rapid.IntRange(0, 4).Draw(t, "step"); {
			case step == 0 || len(held) == 0:
				w := rapid.SampledFrom([]int{1, 1, 3, 16}).Draw(t, "weight")
				n := p.first(hint, w)
				if n < 1 || n > hint || n > 1 && before+n*w > p.budget {
					t.Fatalf("first(%d) is %d with %d of %d given", hint, n, before, p.budget)
				}
				held, weights = append(held, n), append(weights, w)
			case step == 1:
				n := p.grow(held[i], hint, weights[i])
				if n < 0 || n > 0 && (held[i]+n > hint || before+n*weights[i] > p.budget) {
					t.Fatalf("grow(%d, %d) is %d with %d of %d given", held[i], hint, n, before, p.budget)
				}
				held[i] += n
			case step == 2:
				p.give(held[i], weights[i])
				held, weights = append(held[:i], held[i+1:]...), append(weights[:i], weights[i+1:]...)
			case step == 3:
				if p.look(hint) {
					if s := p.share(hint); s != p.budget {
						t.Fatalf("a connection with all hints may hold %d of %d", s, p.budget)
					}
				}
			default:
				n := rapid.IntRange(0, held[i]-1).Draw(t, "back")
				p.give(n, weights[i])
				held[i] -= n
			}
			if p.held != sum() {
				t.Fatalf("%d given, %d in the books", sum(), p.held)
			}
		}
	})
}

// The first grants leave credits for connections that turn out to need more, and the first
// connection that gets none triggers a balance, once.
//
// Source: [OP-74c]
func TestFirstGrantsLeaveSomething(t *testing.T) {
	p := creditPool{budget: 8192, exhausted: make(chan struct{}, 1)}
	var grants []int
	for range 1000 {
		grants = append(grants, p.first(32, 1))
	}
	if grants[0] != 32 || grants[100] < 16 || grants[500] < 4 || grants[999] != 1 || p.held >= p.budget {
		t.Errorf("%d of %d are given, first %d, %d, %d, %d", p.held, p.budget, grants[0], grants[100], grants[500], grants[999])
	}
	if p.look(0) {
		t.Error("small first grants are taken for need")
	}
	p.grow(1, p.budget, 1)
	if n := p.grow(1, 4, 1) + p.grow(2, 4, 1); n != 0 || len(p.exhausted) != 1 {
		t.Errorf("%d signals of an exhausted pool", len(p.exhausted))
	}
	<-p.exhausted
	if !p.look(100) || p.grow(1, 4, 1) != 0 || len(p.exhausted) != 0 {
		t.Error("a known need is signalled again")
	}
}
