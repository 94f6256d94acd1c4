package vfs

import (
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"lwio/internal/account"
	"lwio/internal/host"
	"lwio/internal/ntstatus"
)

// DefaultMaxOpens is the default of Config.MaxOpens.
const DefaultMaxOpens = 16384

// The other defaults of Config.
const (
	defaultRevokeTimeout = 5 * time.Second
	defaultLeaseTimeout  = 35 * time.Second
	defaultMaxLocks      = 65536
	defaultMaxFileLocks  = 8192
	defaultMaxOpenLocks  = 4096
)

// Config configures an FS. The zero value serves no shares.
type Config struct {
	// Shares are the shares, in the order of a listing. Their names differ in more than case.
	Shares []Share
	// Logger receives the failures that no call returns; nil discards them.
	Logger *slog.Logger
	// MaxOpens bounds the opens at a time. 0 means DefaultMaxOpens, or half of the descriptors
	// that the process may have if that is less.
	MaxOpens int
	// MaxUserOpens bounds the opens of each user. 0 means three quarters of MaxOpens.
	MaxUserOpens int
	// MaxLocks bounds the byte-range locks at a time, held and waiting; one user has three
	// quarters at most. MaxFileLocks and MaxOpenLocks bound those of each file and of each
	// open. 0 means 65536, 8192 and 4096.
	MaxLocks, MaxFileLocks, MaxOpenLocks int
	// RevokeTimeout bounds how long a close waits for I/O in flight before it runs the stall
	// hooks, and once more after that. 0 means 5 s.
	//
	// Source: [OP-58b]
	RevokeTimeout time.Duration
	// LeaseTimeout bounds how long an operation waits for the holder of a lease to acknowledge its
	// break. After that the holder loses the lease. 0 means 35 s.
	//
	// Source: [MS-SMB2 3.3.2.1], [MS-SMB2 3.3.2.5]
	LeaseTimeout time.Duration
}

// Owner is the owner of an open: any comparable value. SMB uses the lineage of its session.
type Owner any

// FS is the table of opens over a fixed set of shares. Safe for concurrent use.
type FS struct {
	log     *slog.Logger
	timeout time.Duration
	shares  map[string]*share // by folded name; fixed
	list    []*share          // as configured

	table  table
	opens  *account.Sum // the opens in the table, and the opens in progress
	locks  lockQuota
	leases leaseTable
	lastID atomic.Uint64
	tracks atomic.Bool // TrackWrites

	skipped atomic.Uint64 // directory entries that are not served
	stalled stalledOpens
	// throughFailed is registered by OnThroughFailure; nil for none.
	throughFailed atomic.Pointer[func(*Open)]
	// changing is registered by OnChange; nil for none.
	changing atomic.Pointer[func()]
}

// OnChange registers f, in place of an earlier one. f runs before each change of the content, the times or the attributes
// of a file by an open. It must be cheap, and call nothing of this package.
func (f *FS) OnChange(run func()) { f.changing.Store(&run) }

// beginsChange runs the function of OnChange.
func (f *FS) beginsChange() {
	if run := f.changing.Load(); run != nil {
		(*run)()
	}
}

// OnThroughFailure registers f, in place of an earlier one. f runs when the backend has failed at a write of an open
// with WriteThrough, before the caller of the write gets the error: other written data of the file may be lost too.
// No lock of this package is held while f runs. The open stays valid during f.
//
// Source: [OP-92f]
func (f *FS) OnThroughFailure(run func(*Open)) { f.throughFailed.Store(&run) }

// Stats is a snapshot of an FS. The fields of type int are current values; the others count
// since the start.
type Stats struct {
	// Opens is the number of opens, at most MaxOpens.
	Opens, MaxOpens int
	// Locks is the number of byte-range locks held, and WaitingLocks the number of requests
	// that wait for one, together at most MaxLocks. LockWaits counts the requests that had to
	// wait.
	Locks, WaitingLocks, MaxLocks int
	LockWaits                     uint64
	// SkippedEntries counts the directory entries that listings left out, because SMB cannot
	// carry their names or they are never served.
	SkippedEntries uint64
	// Stalled is the number of closed opens whose I/O has not ended.
	Stalled int
	// Leases is the number of leases and oplocks, at most that of the opens. LeaseBreaks counts their
	// breaks, and LeasesRevoked the leases whose holders did not acknowledge a break.
	Leases                     int
	LeaseBreaks, LeasesRevoked uint64
}

// New returns an FS. On success it owns the backends of cfg.Shares.
//
// Errors: fs.ErrInvalid for an invalid name of a share, fs.ErrExist for two names that differ in
// case only or not at all.
func New(cfg Config) (*FS, error) {
	f := &FS{
		log:     cfg.Logger,
		timeout: cfg.RevokeTimeout,
		opens:   newOpenSum(cfg.MaxOpens, cfg.MaxUserOpens),
		shares:  make(map[string]*share),
	}
	f.table.init(&f.leases)
	f.leases.byKey = make(map[LeaseKey]*lease)
	if f.leases.patience = cfg.LeaseTimeout; f.leases.patience <= 0 {
		f.leases.patience = defaultLeaseTimeout
	}
	f.locks = lockQuota{
		all:     account.NewSum(int64(positive(cfg.MaxLocks, defaultMaxLocks)), 0),
		perFile: positive(cfg.MaxFileLocks, defaultMaxFileLocks),
		perOpen: positive(cfg.MaxOpenLocks, defaultMaxOpenLocks),
	}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	if f.timeout <= 0 {
		f.timeout = defaultRevokeTimeout
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
		f.shares[key] = newShare(s, &f.table)
		f.list = append(f.list, f.shares[key])
	}
	return f, nil
}

// newOpenSum returns the sum of opens with its limits. 0 is the default of a limit.
func newOpenSum(most, mostOfUser int) *account.Sum {
	if most <= 0 {
		most = host.DescriptorShare(DefaultMaxOpens, 2)
	}
	return account.NewSum(int64(most), int64(mostOfUser))
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

// Connect finds a share by name, in any case, and the rights of a user on it. The share must not be
// changed. Open checks the rights again.
//
// Errors: BAD_NETWORK_NAME for no share, ACCESS_DENIED for a user without rights.
//
// Source: [MS-SMB2 3.3.5.7]
func (f *FS) Connect(name, user string) (*Share, Rights, error) {
	s := f.shares[foldShare(name)]
	if s == nil {
		return nil, NoAccess, fail("connect", name, "", ntstatus.BadNetworkName)
	}
	rights := s.rightsOf(user)
	if rights == NoAccess {
		return nil, NoAccess, fail("connect", name, "", errNoRights)
	}
	return &s.Share, rights, nil
}

// Shares lists the shares to which a user may connect, as configured. The shares must not be
// changed.
func (f *FS) Shares(user string) (list []*Share) {
	for _, s := range f.list {
		if s.rightsOf(user) != NoAccess {
			list = append(list, &s.Share)
		}
	}
	return list
}

// Usage is the number of opens, or of byte-range locks, of users.
type Usage struct {
	// Held is the number of all, at most Limit.
	Held, Limit int64
	// UserHeld is the number of the user with the most, at most UserLimit.
	UserHeld, UserLimit int64
}

func usageOf(s *account.Sum) Usage {
	u := s.Usage()
	return Usage{Held: u.Held, Limit: u.Limit, UserHeld: u.Most, UserLimit: u.UserLimit}
}

// Usage returns the opens and the byte-range locks of users, held and waiting, with their limits.
func (f *FS) Usage() (opens, locks Usage) { return usageOf(f.opens), usageOf(f.locks.all) }

// Stats returns the counters.
func (f *FS) Stats() Stats {
	locks := int(f.locks.all.Held())
	waiting := min(int(f.locks.waits.Load()), locks) // both change meanwhile
	return Stats{
		Opens:          int(f.opens.Held()),
		MaxOpens:       int(f.opens.Limit()),
		Locks:          locks - waiting,
		WaitingLocks:   waiting,
		LockWaits:      f.locks.waited.Load(),
		MaxLocks:       int(f.locks.all.Limit()),
		SkippedEntries: f.skipped.Load(),
		Stalled:        int(f.stalled.n.Load()),
		Leases:         f.leases.held(),
		LeaseBreaks:    f.leases.breaks.Load(),
		LeasesRevoked:  f.leases.revoked.Load(),
	}
}

// ByResumeKey finds an open by its resume key, for its owner only.
//
// Errors: OBJECT_NAME_NOT_FOUND for an unknown key, for that of another owner, or of an open
// that is being closed.
//
// Source: [OP-56] [LWIO §File Registration]
func (f *FS) ByResumeKey(key [24]byte, owner Owner) (*Open, error) {
	o := f.table.find(key, owner)
	if o == nil {
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
	f.stalled.wait()
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
