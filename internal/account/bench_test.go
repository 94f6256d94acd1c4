package account

import (
	"context"
	"fmt"
	"testing"
)

// charges are the ways in which a message is charged and its charge returned.
var charges = map[string]func(a *Account){
	"allowance": func(a *Account) {
		c, _ := a.TryCharge("alice", 16<<10, Last)
		c.Return()
	},
	"user": func(a *Account) {
		c, _ := a.TryCharge("alice", 64<<10, Last)
		c.Return()
	},
	"message": func(a *Account) {
		c, _ := a.Charge(context.Background(), "alice", 64<<10, First)
		c.Reduce(512)
		c.Return()
	},
}

// newBusyAccount returns an account of one of 100 users that hold a part of the sum.
func newBusyAccount() *Account {
	s := NewSum(1<<30, 0)
	for i := range 100 {
		s.Take(fmt.Sprint("user", i), 1<<20, Last)
	}
	s.Take("alice", 1, Last)
	return NewAccount(s, 32<<10)
}

func TestChargeAllocatesNothing(t *testing.T) {
	for name, charge := range charges {
		a := newBusyAccount()
		if n := testing.AllocsPerRun(100, func() { charge(a) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkCharge(b *testing.B) {
	for name, charge := range charges {
		b.Run(name, func(b *testing.B) {
			a := newBusyAccount()
			for b.Loop() {
				charge(a)
			}
		})
	}
}
