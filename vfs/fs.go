package vfs

import (
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"lwio/internal/ntstatus"
)

// Defaults of Config.
const (
	DefaultMaxOpens      = 16384
	DefaultRevokeTimeout = 5 * time.Second
	DefaultMaxLocks      = 65536
	DefaultMaxFileLocks  = 8192
	DefaultMaxOpenLocks  = 4096
)

// Config configures an FS. The zero value serves no shares.
type Config struct {
	Shares []Share
	// Logger gets events that no caller gets as an error; nil discards them.
	Logger *slog.Logger
	// MaxOpens bounds the opens at a time. 0 means DefaultMaxOpens, or half of the descriptors
	// that the process may have if those are fewer.
	MaxOpens int
	// MaxUserOpens bounds the opens of each user, so that one user cannot take all. 0 means
	// three quarters of MaxOpens.
	MaxUserOpens int
	// MaxLocks bounds the byte-range locks that are held or waited for at a time, of
	// which a user has three quarters at most; MaxFileLocks and MaxOpenLocks bound those
	// of each file and of each open. 0 means DefaultMaxLocks, DefaultMaxFileLocks and
	// DefaultMaxOpenLocks.
	MaxLocks, MaxFileLocks, MaxOpenLocks int
	// RevokeTimeout bounds how long a close waits for I/O in flight, before and
	// again after the stall hooks ran. 0 means DefaultRevokeTimeout.
	//
	// Source: [OP-58b]
	RevokeTimeout time.Duration
}

// Owner is the owner of an open: any comparable value, for SMB the session.
type Owner any

// FS is the table of opens over a fixed set of shares. Safe for concurrent use.
type FS struct {
	log     *slog.Logger
	timeout time.Duration
	shares  map[string]*share // by folded name; fixed
	list    []*share          // as configured

	table  table
	opens  *userLimit // those in the table, and those being made
	locks  lockQuota
	lastID atomic.Uint64

	skipped atomic.Uint64 // directory entries that are not served
	orphans atomic.Int64  // closed opens whose I/O has not ended
}

// Stats are counters since the start, and current numbers.
type Stats struct {
	// Opens is the current number, of at most MaxOpens.
	Opens, MaxOpens int
	// Locks is the number held or waited for now, of at most MaxLocks; LockWaits those waited
	// for, LockWaited those that were ever waited for.
	Locks, LockWaits, MaxLocks int
	LockWaited                 uint64
	// SkippedNames counts directory entries that SMB cannot carry or that are
	// never served.
	SkippedNames uint64
	// Stalled is the number of closed opens whose I/O has not ended.
	Stalled int
}

// New returns an FS. On success it owns the backends of cfg.Shares.
//
// Errors: fs.ErrInvalid for an invalid name of a share, fs.ErrExist for two names that differ in
// case only or not at all.
func New(cfg Config) (*FS, error) {
	f := &FS{
		log:     cfg.Logger,
		timeout: cfg.RevokeTimeout,
		opens:   newOpenLimit(cfg.MaxOpens, cfg.MaxUserOpens),
		shares:  make(map[string]*share),
	}
	f.table.init()
	f.locks = lockQuota{
		all:     newUserLimit(positive(cfg.MaxLocks, DefaultMaxLocks), 0),
		perFile: positive(cfg.MaxFileLocks, DefaultMaxFileLocks),
		perOpen: positive(cfg.MaxOpenLocks, DefaultMaxOpenLocks),
	}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	if f.timeout <= 0 {
		f.timeout = DefaultRevokeTimeout
	}
	for _, s := range cfg.Shares {
		if err := checkShareName(s.Name); err != nil {
			return nil, err
		}
		if s.Backend == nil {
			return nil, fmt.Errorf("vfs: share %q: %w: no backend", s.Name, fs.ErrInvalid)
		}
		key := foldShare(s.Name)
		if f.shares[key] != nil {
			return nil, fmt.Errorf("vfs: share %q: %w", s.Name, fs.ErrExist)
		}
		f.shares[key] = newShare(s)
		f.list = append(f.list, f.shares[key])
	}
	return f, nil
}

// positive is n, or otherwise if n is not positive.
func positive(n, otherwise int) int {
	if n > 0 {
		return n
	}
	return otherwise
}

// foldShare maps all names of one share to one string.
func foldShare(name string) string { return strings.ToLower(strings.ToUpper(name)) }

// Lookup finds a share by name, in any case. The result must not be changed.
func (f *FS) Lookup(name string) (*Share, bool) {
	s, ok := f.shares[foldShare(name)]
	if !ok {
		return nil, false
	}
	return &s.Share, true
}

// Stats returns the counters.
func (f *FS) Stats() Stats {
	locks := f.locks.all.now()
	return Stats{
		Opens:        f.opens.now(),
		MaxOpens:     f.opens.most,
		Locks:        locks,
		LockWaits:    min(int(f.locks.waits.Load()), locks), // both change meanwhile
		LockWaited:   f.locks.waited.Load(),
		MaxLocks:     f.locks.all.most,
		SkippedNames: f.skipped.Load(),
		Stalled:      int(f.orphans.Load()),
	}
}

// ByResumeKey finds an open by its resume key, for its owner only.
//
// Errors: OBJECT_NAME_NOT_FOUND for an unknown key, for that of another owner, or of an open
// that is being closed.
//
// Source: [OP-56] [LWIO §File Registration]
func (f *FS) ByResumeKey(key [24]byte, owner Owner) (*Open, error) {
	o := f.table.find(key)
	if o == nil || owner == nil || o.owner != owner {
		return nil, &Error{Op: "resume", Name: "key", Status: ntstatus.ObjectNameNotFound}
	}
	return o, nil
}

// CloseOwner closes all opens of owner together, each as Open.Close does: it waits no longer than
// one of them would. For a logoff or a lost connection.
func (f *FS) CloseOwner(owner Owner) {
	f.CloseAll(f.table.ownedBy(owner)...)
}

// Close refuses new opens, closes all opens, and then the backends.
// A second Close does nothing.
func (f *FS) Close() error {
	opens, first := f.table.close()
	f.CloseAll(opens...)
	if !first {
		return nil
	}
	var err error
	for _, s := range f.list {
		if e := s.Backend.Close(); e != nil && err == nil {
			err = fail("close", s.Name, "", e)
		}
	}
	return err
}
