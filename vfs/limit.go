package vfs

import (
	"sync"

	"lwio/internal/descriptors"
)

// openLimit counts opens, of all users and of each. Safe for concurrent use.
type openLimit struct {
	most, mostOfUser int

	mu    sync.Mutex
	all   int
	users map[string]int // who has any
}

// newOpenLimit fills in the defaults of the two limits.
func newOpenLimit(most, mostOfUser int) *openLimit {
	if most <= 0 {
		most = descriptors.Share(DefaultMaxOpens, 2)
	}
	if mostOfUser <= 0 {
		mostOfUser = most - most/4
	}
	return &openLimit{most: most, mostOfUser: mostOfUser, users: make(map[string]int)}
}

// take counts one more of a user; false says that there are too many. Opens of nobody
// in particular, "", are bounded with all others only.
func (l *openLimit) take(user string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= l.most || user != "" && l.users[user] >= l.mostOfUser {
		return false
	}
	l.all++
	l.users[user]++
	return true
}

// give takes one out.
func (l *openLimit) give(user string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.users[user]--; l.users[user] == 0 {
		delete(l.users, user)
	}
}

// now is how many there are.
func (l *openLimit) now() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all
}
