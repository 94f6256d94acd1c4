package account

import (
	"context"
	"slices"
	"sync"
)

// Step is the order in which one piece of work takes parts of a Sum.
type Step uint8

// The steps. Work that holds a part of step Last never waits for more. Parts of step First are at
// most half of each limit, so work that holds one and waits for its part of step Last goes on.
const (
	Last Step = iota
	First
)

// Sum counts the parts of one resource that peers hold, in total and of each user, and bounds both. The unit
// is bytes, or pieces. A user is named by its canonical name; no limit of a user applies to the
// user "". Safe for concurrent use.
type Sum struct {
	limit, userLimit int64

	mu      sync.Mutex
	all     held
	users   map[string]held // without entries of zero
	waiting []*waiter       // in the order of arrival
}

// held is the taken part, of all steps together and of step First.
type held struct{ all, first int64 }

// waiter is a call of Wait.
type waiter struct {
	user    string
	n       int64
	step    Step
	granted chan struct{} // closed when n is taken
}

// NewSum returns a sum with its limits. userLimit 0 means three quarters of limit.
func NewSum(limit, userLimit int64) *Sum {
	if userLimit <= 0 {
		userLimit = limit - limit/4
	}
	return &Sum{limit: limit, userLimit: userLimit, users: make(map[string]held)}
}

// Limit returns the limit of all peers together.
func (s *Sum) Limit() int64 { return s.limit }

// UserLimit returns the limit of each user.
func (s *Sum) UserLimit() int64 { return s.userLimit }

// Usage is a snapshot of a Sum.
type Usage struct {
	// Held is the part that all peers hold, of Limit. Most is the part of the user that holds the
	// most, of UserLimit.
	Held, Limit, Most, UserLimit int64
}

// Usage returns a snapshot.
func (s *Sum) Usage() Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := Usage{Held: s.all.all, Limit: s.limit, UserLimit: s.userLimit}
	for name, of := range s.users {
		if name != "" {
			u.Most = max(u.Most, of.all)
		}
	}
	return u
}

// Held returns the part that all peers hold.
func (s *Sum) Held() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.all
}

// HeldBy returns the part that a user holds.
func (s *Sum) HeldBy(user string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.users[user].all
}

// Take takes n for a user, unless that exceeds a limit or a Wait has precedence. It reports
// whether n is taken.
func (s *Sum) Take(user string, n int64, step Step) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := waiter{user: user, n: n, step: step}
	if !s.fitsLocked(&w) || s.queuedLocked() {
		return false
	}
	s.addLocked(user, n, step)
	return true
}

// Wait takes n for a user, and waits until that exceeds no limit. Waits for the common limit are
// granted in the order of arrival; a wait for the limit of a user delays no other user. A part
// above a limit is granted when the sum, or the user, holds nothing.
//
// Errors: the cause of ctx. Then nothing is taken.
func (s *Sum) Wait(ctx context.Context, user string, n int64, step Step) error {
	if s.Take(user, n, step) {
		return nil
	}
	w := &waiter{user: user, n: n, step: step, granted: make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, w)
	s.grantLocked()
	s.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, w); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	} else {
		s.addLocked(user, -n, step)
	}
	s.grantLocked()
	return context.Cause(ctx)
}

// Force takes n for a user, even above the limits. It is for parts that are small, and needed to
// finish work that has begun.
func (s *Sum) Force(user string, n int64, step Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addLocked(user, n, step)
}

// Give returns n of a user.
func (s *Sum) Give(user string, n int64, step Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addLocked(user, -n, step)
	s.grantLocked()
}

// addLocked adds n, which may be negative. Precondition: mu is held.
func (s *Sum) addLocked(user string, n int64, step Step) {
	of := s.users[user]
	s.all.all, of.all = s.all.all+n, of.all+n
	if step == First {
		s.all.first, of.first = s.all.first+n, of.first+n
	}
	if of == (held{}) {
		delete(s.users, user)
		return
	}
	s.users[user] = of
}

// fitsLocked reports whether w can be granted. Precondition: mu is held.
func (s *Sum) fitsLocked(w *waiter) bool {
	return s.ownFitsLocked(w) && (s.all.all == 0 || s.all.all+w.n <= s.limit)
}

// ownFitsLocked reports whether w waits for the common limit at most: neither for the limit of its
// user nor for its step. Precondition: mu is held.
func (s *Sum) ownFitsLocked(w *waiter) bool {
	of := s.users[w.user]
	if w.step == First && s.all.first > 0 && s.all.first+w.n > s.limit/2 {
		return false
	}
	if w.user == "" || of.all == 0 {
		return true
	}
	return of.all+w.n <= s.userLimit && (w.step != First || of.first == 0 || of.first+w.n <= s.userLimit/2)
}

// queuedLocked reports whether a Wait waits for the common limit. It has precedence over a new
// request. Precondition: mu is held.
func (s *Sum) queuedLocked() bool { return slices.ContainsFunc(s.waiting, s.ownFitsLocked) }

// grantLocked grants the waits that fit. Precondition: mu is held.
func (s *Sum) grantLocked() {
	for i := 0; i < len(s.waiting); {
		w := s.waiting[i]
		switch {
		case !s.ownFitsLocked(w):
			i++
		case !s.fitsLocked(w):
			return
		default:
			s.addLocked(w.user, w.n, w.step)
			close(w.granted)
			s.waiting = slices.Delete(s.waiting, i, i+1)
		}
	}
}
