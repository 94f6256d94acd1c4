package vfs

import (
	"sync"

	"lwio/internal/host"
)

// userLimit counts the opens, or locks, of all users and of each, and bounds them. Safe for
// concurrent use.
type userLimit struct {
	most, mostOfUser int

	mu    sync.Mutex
	all   int
	users map[string]int // counts above 0
}

// newOpenLimit fills in the defaults of the two limits.
func newOpenLimit(most, mostOfUser int) *userLimit {
	if most <= 0 {
		most = host.DescriptorShare(DefaultMaxOpens, 2)
	}
	return newUserLimit(most, mostOfUser)
}

// newUserLimit fills in the default for each user: three quarters of most.
func newUserLimit(most, mostOfUser int) *userLimit {
	if mostOfUser <= 0 {
		mostOfUser = most - most/4
	}
	return &userLimit{most: most, mostOfUser: mostOfUser, users: make(map[string]int)}
}

// take counts one more of a user; false if the count would exceed a limit. The limit of a user does
// not apply to the user "".
func (l *userLimit) take(user string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= l.most || user != "" && l.users[user] >= l.mostOfUser {
		return false
	}
	l.all++
	l.users[user]++
	return true
}

// give subtracts n from the counts.
func (l *userLimit) give(user string, n int) {
	if n == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all -= n
	if l.users[user] -= n; l.users[user] == 0 {
		delete(l.users, user)
	}
}

// now returns the count of all users.
func (l *userLimit) now() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all
}
