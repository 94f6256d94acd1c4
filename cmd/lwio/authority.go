package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"lwio/cmd/lwio/internal/config"
	"lwio/cmd/lwio/internal/userfile"
	"lwio/vfs"
)

// authority has the users that may log on to the server, and their rights on each share. Its
// state is replaced as a whole. Safe for concurrent use.
type authority struct {
	state atomic.Pointer[authorityState]
}

// authorityState is the state of an authority between two changes. It is read-only.
type authorityState struct {
	users *userfile.File
	// rights are the rights on each share, by its name; nil gives all users all rights on each.
	rights map[string]config.Rights
}

func newAuthority(users *userfile.File, rights map[string]config.Rights) *authority {
	a := new(authority)
	a.state.Store(&authorityState{users, rights})
	return a
}

// lookup is a server.Config.Lookup.
func (a *authority) lookup(domain, user string) (name string, ntHash [16]byte, ok bool) {
	return a.state.Load().users.Lookup(domain, user)
}

// rightsOn returns the vfs.Share.Rights of a share.
func (a *authority) rightsOn(share string) func(user string) vfs.Rights {
	return func(user string) vfs.Rights {
		s := a.state.Load()
		if s.rights == nil {
			return vfs.ReadWrite
		}
		return s.rights[share].Of(user) // none on a share that the configuration has lost
	}
}

// userChanges are the names of the users that differ between two states.
type userChanges struct{ added, removed, changed []string }

// setUsers replaces the users.
func (a *authority) setUsers(users *userfile.File) (c userChanges) {
	old := a.state.Load()
	hashes := make(map[string][16]byte)
	for _, u := range old.users.Users() {
		hashes[u.Name] = u.NTHash
	}
	for _, u := range users.Users() {
		switch hash, had := hashes[u.Name]; {
		case !had:
			c.added = append(c.added, u.Name)
		case hash != u.NTHash:
			c.changed = append(c.changed, u.Name)
		}
		delete(hashes, u.Name)
	}
	c.removed = slices.Sorted(maps.Keys(hashes))
	a.state.Store(&authorityState{users, old.rights})
	return c
}

// setRights replaces the rights.
func (a *authority) setRights(rights map[string]config.Rights) {
	a.state.Store(&authorityState{a.state.Load().users, rights})
}

// readUsers reads the users of a server. With a user, the file's first line is the password of that
// user; without one, the file is a file of users.
func readUsers(name, user string) (*userfile.File, error) {
	if user == "" {
		return userfile.Read(name)
	}
	password, err := readPassword(name)
	if err != nil {
		return nil, err
	}
	return oneUser(user, password)
}

// oneUser returns the users of a server with one user.
func oneUser(user, password string) (*userfile.File, error) {
	if err := userfile.CheckName(user); err != nil {
		return nil, usagef("--user %q: %w", user, err)
	}
	hash, err := userfile.Hash(password)
	if err != nil {
		return nil, fmt.Errorf("user %s: %w", user, err)
	}
	f := new(userfile.File)
	f.Set(userfile.User{Name: user, NTHash: hash})
	return f, nil
}

// errNoUser refuses the start of a server that no client can use.
var errNoUser = errors.New("there is no user in it; 'lwio user add' adds one")
