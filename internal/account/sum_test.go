package account

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// Requests are granted in turn, except that no user waits for the part of another.
func TestSumGrantsInOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewSum(100, 0)
		order := make(chan string, 10)
		ask := func(user string, n int) {
			go func() {
				if err := b.Wait(t.Context(), user, int64(n), Last); err != nil {
					t.Error(err)
				}
				order <- user
			}()
			synctest.Wait()
		}
		want := func(users ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for len(order) > 0 {
				got = append(got, <-order)
			}
			if slices.Sort(got); !slices.Equal(got, users) {
				t.Fatalf("%v have it, want %v", got, users)
			}
		}
		ask("alice", 70)
		want("alice")
		ask("alice", 10) // above three quarters
		want()
		ask("bob", 20)
		want("bob")
		ask("carol", 30) // above the limit
		want()
		ask("dave", 5) // would fit, but carol was first
		want()
		if b.Take("dave", 5, Last) {
			t.Error("dave went past carol")
		}
		b.Give("bob", 20, Last)
		want("carol")
		b.Give("alice", 70, Last)
		want("alice", "dave")
		b.Give("alice", 10, Last)
		b.Give("carol", 30, Last)
		if !b.Take("eve", 75, Last) || b.Take("eve", 1, Last) || b.Take("bob", 21, Last) {
			t.Error("wrong about the free bytes")
		}
		b.Give("eve", 75, Last)
		b.Give("dave", 5, Last)
		if !b.Take("eve", 1000, Last) || b.Take("bob", 1, Last) {
			t.Error("wrong about a request above the limit")
		}
		b.Give("eve", 1000, Last)
	})
}

// The end of a wait leaves no bytes taken, also if it was granted at the same moment, and the
// next in the queue is granted.
func TestSumWaitEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewSum(100, 0)
		why := errors.New("why")
		for range 100 {
			b.Take("alice", 60, Last)
			ctx, cancel := context.WithCancelCause(t.Context())
			done, behind := make(chan error, 1), make(chan error, 1)
			go func() { done <- b.Wait(ctx, "bob", 50, Last) }()
			synctest.Wait()
			go func() { behind <- b.Wait(t.Context(), "carol", 40, Last) }()
			synctest.Wait()
			go b.Give("alice", 60, Last)
			cancel(why)
			if err := <-done; err == nil {
				b.Give("bob", 50, Last)
			} else if !errors.Is(err, why) {
				t.Fatal(err)
			}
			if err := <-behind; err != nil {
				t.Fatal(err)
			}
			b.Give("carol", 40, Last)
			synctest.Wait()
			if b.all != (held{}) || len(b.users) != 0 || len(b.waiting) != 0 {
				t.Fatalf("%d bytes, %d users, %d waiting are left", b.all.all, len(b.users), len(b.waiting))
			}
		}
	})
}

// Source: [MS-SMB2 3.3.5.2] (the limit is ours)
func TestSumBoundsUserAndTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 1000
		b := NewSum(most, 0)
		type part struct {
			user string
			n    int
			step Step
		}
		var all []part
		sum, first := 0, 0
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			if len(all) > 0 && rapid.Bool().Draw(t, "give") {
				i := rapid.IntRange(0, len(all)-1).Draw(t, "which")
				b.Give(all[i].user, int64(all[i].n), all[i].step)
				sum -= all[i].n
				first -= all[i].n * int(all[i].step)
				all = append(all[:i], all[i+1:]...)
				continue
			}
			h := part{
				rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "user"), rapid.IntRange(1, 600).Draw(t, "n"),
				rapid.SampledFrom([]Step{Last, First}).Draw(t, "step"),
			}
			if b.Take(h.user, int64(h.n), h.step) {
				all = append(all, h)
				sum += h.n
				first += h.n * int(h.step)
			}
			if sum > most || b.Held() != int64(sum) || b.all.first != int64(first) {
				t.Fatalf("%d taken, %d counted, of %d; %d and %d of step First", sum, b.Held(), most, first, b.all.first)
			}
			if mine := b.users[h.user]; mine.all > most*3/4 || first > most/2 && first > 600 {
				t.Fatalf("a user has %+v, all have %d of step First", mine, first)
			}
		}
	})
}

// Work that holds a part of step First, and waits for its part of step Last, goes on: parts of step
// First never take all of a limit.
func TestSumLeavesRoomForTheLastStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSum(100, 0)
		const works = 60
		done := make(chan struct{}, works)
		for i := range works {
			go func() {
				user := []string{"alice", "bob", "carol"}[i%3]
				if err := s.Wait(t.Context(), user, 10, First); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second) // until all others have their first part, or wait
				if err := s.Wait(t.Context(), user, 20, Last); err != nil {
					t.Error(err)
				}
				s.Give(user, 20, Last)
				s.Give(user, 10, First)
				done <- struct{}{}
			}()
		}
		time.Sleep(works * time.Second)
		if len(done) != works || s.Held() != 0 {
			t.Errorf("%d of %d have ended, %d are held", len(done), works, s.Held())
		}
	})
}

// A peer without an authenticated user has its allowance, and no part of the sum.
func TestAccountChargesAllowanceThenUser(t *testing.T) {
	s := NewSum(100, 0)
	a := NewAccount(s, 10)
	own, ok := a.TryCharge("", 10, First)
	if !ok || s.Held() != 0 {
		t.Fatalf("the allowance: %t, %d bytes of the sum", ok, s.Held())
	}
	if _, ok := a.TryCharge("", 1, Last); ok {
		t.Error("an unauthenticated peer has more than its allowance")
	}
	if _, err := a.Charge(t.Context(), "", 1, Last); !errors.Is(err, ErrAllowance) {
		t.Errorf("a wait without a user: %v", err)
	}
	shared, err := a.Charge(t.Context(), "alice", 5, Last)
	if err != nil || s.HeldBy("alice") != 5 || shared.Bytes() != 5 {
		t.Errorf("%v, alice has %d bytes", err, s.HeldBy("alice"))
	}
	forced := a.ForceCharge("alice", 200, Last)
	if s.HeldBy("alice") != 205 {
		t.Errorf("alice has %d bytes", s.HeldBy("alice"))
	}
	for _, c := range []*Charge{&own, &shared, &forced, &own, &shared} {
		c.Return()
	}
	if s.Held() != 0 || a.own.Load() != 0 || len(s.users) != 0 {
		t.Errorf("%d and %d bytes are left", s.Held(), a.own.Load())
	}
}
