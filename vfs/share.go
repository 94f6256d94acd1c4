package vfs

import (
	"fmt"
	"hash/maphash"
	"io/fs"
	"strings"
	"sync"
	"unicode/utf8"
)

// Share is a tree of files under a name.
type Share struct {
	// Name is its name for clients, in any case: 1 to 80 characters, none of
	// them a control character or one of "\/[]:|<>+=;,*?, and not IPC$.
	Name string
	// Backend holds the files. FS.Close closes it.
	Backend Backend
	// ReadOnly refuses all changes of all users.
	ReadOnly bool
	// RequireEncryption makes the protocols refuse requests that others on the network can read.
	// This package does not enforce it.
	RequireEncryption bool
	// Rights returns the rights of a user on the share: the user of a request, see
	// OpenRequest.User. Nil means ReadWrite for every user. Rights is called at each tree connect
	// and open, without a lock of this package. It must be safe for concurrent use. When its
	// results have changed, call FS.Reauthorize.
	Rights func(user string) Rights
}

// rightsOf returns the present rights of a user.
func (s *Share) rightsOf(user string) Rights {
	rights := ReadWrite
	if s.Rights != nil {
		rights = s.Rights(user)
	}
	if s.ReadOnly {
		rights = min(rights, ReadOnly)
	}
	return rights
}

// maxShareName bounds a share's name, in characters.
//
// Source: [MS-SMB2 2.2.9]
const maxShareName = 80

// checkShareName returns an error for an invalid name of a share.
func checkShareName(name string) error {
	switch {
	case name == "", name == ".", name == "..", !utf8.ValidString(name):
	case utf8.RuneCountInString(name) > maxShareName:
		return fmt.Errorf("vfs: share %.80q...: %w: more than %d characters", name, fs.ErrInvalid, maxShareName)
	case strings.EqualFold(name, "IPC$"):
		return fmt.Errorf("vfs: share %q: %w: the name is reserved", name, fs.ErrInvalid)
	case strings.ContainsFunc(name, func(r rune) bool {
		return r < 0x20 || r == 0x7f || strings.ContainsRune(`"\/[]:|<>+=;,*?`, r)
	}):
	default:
		return nil
	}
	return fmt.Errorf("vfs: share %q: %w: not a name for a share", name, fs.ErrInvalid)
}

// pathStripes is the number of locks for the names of a share.
const pathStripes = 64

// share is a Share with its locks.
type share struct {
	Share
	seed  maphash.Seed
	ns    sync.RWMutex            // see the package comment
	paths [pathStripes]sync.Mutex // see the package comment

	table       *table // of all shares
	pendingDirs *pendingDirs
	watches     watches
}

func newShare(s Share, t *table) *share {
	return &share{Share: s, seed: maphash.MakeSeed(), table: t, pendingDirs: newPendingDirs()}
}

// stripe is the lock that serialises operations on the name path.
func (s *share) stripe(path string) *sync.Mutex {
	return &s.paths[maphash.String(s.seed, path)%pathStripes]
}
