package smbserver

import (
	"context"
	"slices"
	"sync"
)

// budget bounds the memory of long messages, of all connections together. Who finds it
// used up waits, in the order of arrival; no user can have more than three quarters of
// it, and one who waits for his own share holds up nobody else. Safe for concurrent
// use.
type budget struct {
	most, mostOfUser int64

	mu      sync.Mutex
	used    int64
	byUser  map[string]int64
	waiting []*claim
}

// claim is memory that somebody waits for.
type claim struct {
	user    string
	n       int64
	granted chan struct{}
}

// longMessage is from how many bytes on a message counts.
const longMessage = 16 << 10

func newBudget(most int64) *budget {
	return &budget{most: most, mostOfUser: most - most/4, byUser: make(map[string]int64)}
}

// take takes n bytes, and waits until they are there.
//
// Errors: ctx's cause.
func (b *budget) take(ctx context.Context, user string, n int) error {
	b.mu.Lock()
	if c := (&claim{user: user, n: int64(n)}); b.fitsLocked(c) && !b.othersLocked() {
		b.addLocked(user, c.n)
		b.mu.Unlock()
		return nil
	}
	c := &claim{user: user, n: int64(n), granted: make(chan struct{})}
	b.waiting = append(b.waiting, c)
	b.mu.Unlock()
	select {
	case <-c.granted:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiting, c); i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	} else {
		b.addLocked(user, -c.n)
	}
	b.grantLocked()
	return context.Cause(ctx)
}

// tryTake takes n bytes if they are there at once.
func (b *budget) tryTake(user string, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := claim{user: user, n: int64(n)}
	if !b.fitsLocked(&c) || b.othersLocked() {
		return false
	}
	b.addLocked(user, c.n)
	return true
}

// give gives them back.
func (b *budget) give(user string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addLocked(user, -int64(n))
	b.grantLocked()
}

// now is how much is taken.
func (b *budget) now() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

func (b *budget) addLocked(user string, n int64) {
	b.used += n
	if b.byUser[user] += n; b.byUser[user] == 0 {
		delete(b.byUser, user)
	}
}

// fitsLocked tells whether there is room for a claim. One that is larger than what
// there may be has it if nobody has anything.
func (b *budget) fitsLocked(c *claim) bool {
	return b.shareLocked(c) && (b.used == 0 || b.used+c.n <= b.most)
}

// shareLocked tells whether it is within the user's share.
func (b *budget) shareLocked(c *claim) bool {
	mine := b.byUser[c.user]
	return mine == 0 || mine+c.n <= b.mostOfUser
}

// othersLocked tells whether somebody waits for more than his own share, who comes
// first.
func (b *budget) othersLocked() bool { return slices.ContainsFunc(b.waiting, b.shareLocked) }

// grantLocked serves who waits.
func (b *budget) grantLocked() {
	for i := 0; i < len(b.waiting); {
		c := b.waiting[i]
		switch {
		case !b.shareLocked(c):
			i++
		case !b.fitsLocked(c):
			return
		default:
			b.addLocked(c.user, c.n)
			close(c.granted)
			b.waiting = slices.Delete(b.waiting, i, i+1)
		}
	}
}
