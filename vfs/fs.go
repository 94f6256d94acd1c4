package vfs

import (
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults of Config.
const (
	DefaultMaxOpens      = 16384
	DefaultRevokeTimeout = 5 * time.Second
	DefaultMaxLocks      = 65536
	DefaultMaxFileLocks  = 8192
	DefaultMaxOpenLocks  = 4096
)

// Config is what New needs. The zero value serves nothing.
type Config struct {
	Shares []Share
	// Logger hears of what no caller can be told; nil is silent.
	Logger *slog.Logger
	// MaxOpens bounds the opens that live at a time. 0 means DefaultMaxOpens, or half
	// of the descriptors that the process may have if those are fewer.
	MaxOpens int
	// MaxUserOpens bounds those of each user, so that one leaves some to the others.
	// 0 means three quarters of MaxOpens.
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

// Owner is whose an open is: any comparable value, for SMB the session.
type Owner any

// FS is the table of opens over a fixed set of shares. Safe for concurrent use.
type FS struct {
	log     *slog.Logger
	timeout time.Duration
	shares  map[string]*share // by folded name; fixed
	list    []*share          // as configured

	opens  *userLimit // those that live, and those being made
	locks  *userLimit // those that are held, and those that are waited for
	lastID atomic.Uint64

	maxFileLocks, maxOpenLocks int

	skipped atomic.Uint64
	orphans atomic.Int64

	lockWaits  atomic.Int64  // now
	lockWaited atomic.Uint64 // ever

	mu     sync.Mutex // see the package comment
	closed bool
	nodes  map[NodeID]*node
	byKey  map[[24]byte]*Open
	owners map[Owner]map[*Open]struct{}
}

// Stats are counters since the start, and what there is now.
type Stats struct {
	// Opens are alive now, of MaxOpens that may be.
	Opens, MaxOpens int
	// Locks are held or waited for now, of MaxLocks that may be; LockWaits are those that
	// are waited for, LockWaited those that ever were.
	Locks, LockWaits, MaxLocks int
	LockWaited                 uint64
	// SkippedNames counts directory entries that SMB cannot carry or that are
	// never served.
	SkippedNames uint64
	// Stalled are closed opens whose I/O has still not come back.
	Stalled int
}

// New makes the table. On success it owns the backends of cfg.Shares.
//
// Errors: fs.ErrInvalid for a name that a share cannot have, fs.ErrExist for
// two that differ at most in case.
func New(cfg Config) (*FS, error) {
	f := &FS{
		log:     cfg.Logger,
		timeout: cfg.RevokeTimeout,
		locks:   newUserLimit(positive(cfg.MaxLocks, DefaultMaxLocks), 0),
		opens:   newOpenLimit(cfg.MaxOpens, cfg.MaxUserOpens),
		shares:  make(map[string]*share),
		nodes:   make(map[NodeID]*node),
		byKey:   make(map[[24]byte]*Open),
		owners:  make(map[Owner]map[*Open]struct{}),

		maxFileLocks: positive(cfg.MaxFileLocks, DefaultMaxFileLocks),
		maxOpenLocks: positive(cfg.MaxOpenLocks, DefaultMaxOpenLocks),
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

// positive is n, or a default if n is not positive.
func positive(n, otherwise int) int {
	if n > 0 {
		return n
	}
	return otherwise
}

// foldShare is what two names of one share have in common.
func foldShare(name string) string { return strings.ToLower(strings.ToUpper(name)) }

// Shares lists the shares as they were configured.
func (f *FS) Shares() []ShareInfo {
	infos := make([]ShareInfo, len(f.list))
	for i, s := range f.list {
		infos[i] = ShareInfo{Name: s.Name, ReadOnly: s.ReadOnly}
	}
	return infos
}

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
	locks := f.locks.now()
	return Stats{
		Opens:        f.opens.now(),
		MaxOpens:     f.opens.most,
		Locks:        locks,
		LockWaits:    min(int(f.lockWaits.Load()), locks), // others change both meanwhile
		LockWaited:   f.lockWaited.Load(),
		MaxLocks:     f.locks.most,
		SkippedNames: f.skipped.Load(),
		Stalled:      int(f.orphans.Load()),
	}
}

// CloseOwner closes all opens of owner, as Open.Close does, and all at a time:
// it waits no longer than one of them would. For a logoff or a lost connection.
func (f *FS) CloseOwner(owner Owner) {
	f.mu.Lock()
	opens := make([]*Open, 0, len(f.owners[owner]))
	for o := range f.owners[owner] {
		opens = append(opens, o)
	}
	f.mu.Unlock()
	f.CloseAll(opens...)
}

// Close refuses new opens, closes all that there are, and then the backends.
// A second Close does nothing.
func (f *FS) Close() error {
	f.mu.Lock()
	first := !f.closed
	f.closed = true
	var opens []*Open
	for _, n := range f.nodes {
		opens = append(opens, n.opens...)
	}
	f.mu.Unlock()
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
