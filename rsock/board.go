package rsock

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"lwio/rdma"
	"lwio/rsock/internal/stream"
	"lwio/rsock/internal/verbs"
)

// board is the switch of a Dialer or a Listener: the table of subnets, and the providers in
// use. Safe for concurrent use.
type board struct {
	cfg      Config
	bulk     *stream.Budget // of all connections; nil: no bound
	partings partings

	looking chan struct{} // has one in it while the addresses are read anew

	mu      sync.Mutex // guards what follows; nobody waits with it
	now     *subnets   // nil before the first look
	changes uint64     // of addresses that were heard of, by whichever way
	lanes   map[laneKey]*lane
	quiet   map[rdma.Addr]time.Time // companions that did not answer, and until when they are left alone
}

// maxQuiet bounds the companions that a dialer leaves alone; beyond it all are asked again.
const maxQuiet = 1024

// laneKey is what a lane is for.
type laneKey struct {
	provider int // in Config.Providers
	local    netip.Addr
}

// lane is a provider in use on one address, until the last connection or listener on it
// ends.
type lane struct {
	*verbs.Service
	board *board
	key   laneKey
	users int           // guarded by board.mu
	open  chan struct{} // closed when the provider is open, or the lane is not used for it
}

func newBoard(cfg *Config) *board {
	b := &board{
		cfg: cfg.withDefaults(), looking: make(chan struct{}, 1),
		lanes: make(map[laneKey]*lane), quiet: make(map[rdma.Addr]time.Time),
	}
	if b.cfg.BulkMemory > 0 {
		b.bulk = stream.NewBudget(b.cfg.BulkMemory)
	}
	return b
}

// subnets is the table of subnets, which is made anew when it is too old. If that fails the
// old one serves on.
//
// One call reads the addresses. The others have the old table meanwhile, and wait only if
// there is none.
func (b *board) subnets(ctx context.Context) (*subnets, error) {
	now, fresh := b.table()
	if fresh {
		return now, nil
	}
	select {
	case b.looking <- struct{}{}:
		return b.look(ctx)
	default:
	}
	if now != nil {
		return now, nil
	}
	return b.newest(ctx)
}

// newest is subnets for who must not miss a change that was heard of: it waits for a call
// that reads the addresses, as that may have begun before the change.
func (b *board) newest(ctx context.Context) (*subnets, error) {
	select {
	case b.looking <- struct{}{}:
		return b.look(ctx)
	case <-ctx.Done():
		return nil, fmt.Errorf("addresses of the providers: %w", context.Cause(ctx))
	}
}

// look reads the addresses, if they are not known yet. The caller has put one into looking.
func (b *board) look(ctx context.Context) (*subnets, error) {
	defer func() { <-b.looking }()
	now, fresh := b.table()
	if fresh {
		return now, nil
	}
	b.mu.Lock()
	known := b.changes
	b.mu.Unlock()
	made, err := readSubnets(ctx, &b.cfg)
	if err != nil {
		if now != nil {
			b.cfg.Logger.Warn("rsock: the table of subnets stays as it is", "err", err)
			return now, nil
		}
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	made.known = known
	b.now = made
	return made, nil
}

// table is the table of subnets as it is, nil if there is none, and whether it will do.
func (b *board) table() (now *subnets, fresh bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now, b.now != nil && b.now.known == b.changes && time.Since(b.now.made) < b.cfg.Refresh
}

// outdate makes the next call of subnets look at the addresses again.
func (b *board) outdate() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changes++
}

// lane opens a provider on an address, or shares it with those who have it open. The caller
// releases it. Of several calls one opens, and the others wait for that, each within its
// context; if it fails, the next opens.
func (b *board) lane(ctx context.Context, p *path, local netip.Addr) (*lane, error) {
	key := laneKey{p.index, local}
	for {
		b.mu.Lock()
		l := b.lanes[key]
		if l == nil {
			l = &lane{board: b, key: key, open: make(chan struct{})}
			b.lanes[key] = l
			b.mu.Unlock()
			return l.start(ctx, p, local)
		}
		if l.isOpen() {
			l.users++
			b.mu.Unlock()
			return l, nil
		}
		b.mu.Unlock()
		select {
		case <-l.open:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s is being opened: %w", p.provider.Name(), context.Cause(ctx))
		}
	}
}

// start opens the provider of a lane, for one use.
func (l *lane) start(ctx context.Context, p *path, local netip.Addr) (*lane, error) {
	b := l.board
	svc, err := verbs.StartupEx(ctx, p.provider, local,
		&verbs.Config{ReceiveDepth: b.cfg.ReceiveBuffers})
	b.mu.Lock()
	defer b.mu.Unlock()
	defer close(l.open)
	if err != nil {
		delete(b.lanes, l.key)
		return nil, err
	}
	l.Service, l.users = svc, 1
	return l, nil
}

// isOpen tells whether the provider is open. The caller holds board.mu.
func (l *lane) isOpen() bool {
	select {
	case <-l.open:
		return true
	default:
		return false
	}
}

// share is one more use of a lane.
func (l *lane) share() *lane {
	l.board.mu.Lock()
	defer l.board.mu.Unlock()
	l.users++
	return l
}

// release ends one use of a lane.
func (l *lane) release() {
	l.board.mu.Lock()
	l.users--
	last := l.users == 0
	if last {
		delete(l.board.lanes, l.key)
	}
	l.board.mu.Unlock()
	if !last {
		return
	}
	if err := l.Cleanup(); err != nil {
		l.board.cfg.Logger.Warn("rsock: provider not closed in good order", "provider", l.Name(), "err", err)
	}
}

// hush leaves a companion alone for a while.
func (b *board) hush(at rdma.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.quiet) >= maxQuiet {
		clear(b.quiet)
	}
	b.quiet[at] = time.Now().Add(b.cfg.Retry)
}

// isQuiet tells whether a companion is to be left alone.
func (b *board) isQuiet(at rdma.Addr) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	until, ok := b.quiet[at]
	if ok && !time.Now().Before(until) {
		delete(b.quiet, at)
		ok = false
	}
	return ok
}
