package rsock

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"lwio/rdma"
	"lwio/rsock/spi"
)

// board is the switch of a Dialer or a Listener: the table of subnets, and the providers in
// use. Safe for concurrent use.
type board struct {
	cfg Config

	mu    sync.Mutex // guards what follows; held while a provider is opened
	now   *subnets   // nil before the first look
	lanes map[laneKey]*lane
	quiet map[rdma.Addr]time.Time // companions that did not answer, and until when they are left alone
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
	*spi.Service
	board *board
	key   laneKey
	users int // guarded by board.mu
}

func newBoard(cfg *Config) *board {
	return &board{cfg: cfg.withDefaults(), lanes: make(map[laneKey]*lane), quiet: make(map[rdma.Addr]time.Time)}
}

// subnets is the table of subnets, which is made anew when it is too old. If that fails the
// old one serves on.
func (b *board) subnets(ctx context.Context) (*subnets, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.now != nil && time.Since(b.now.made) < b.cfg.Refresh {
		return b.now, nil
	}
	fresh, err := readSubnets(ctx, &b.cfg)
	switch {
	case err == nil:
		b.now = fresh
	case b.now == nil:
		return nil, err
	default:
		b.cfg.Logger.Warn("rsock: the table of subnets stays as it is", "err", err)
	}
	return b.now, nil
}

// outdate makes the next call of subnets look at the addresses again.
func (b *board) outdate() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = nil
}

// lane opens a provider on an address, or shares it with those who have it open. The caller
// releases it.
func (b *board) lane(ctx context.Context, p *path, local netip.Addr) (*lane, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := laneKey{p.index, local}
	l := b.lanes[key]
	if l == nil {
		svc, err := spi.StartupEx(ctx, p.provider, local, &spi.Config{Threshold: b.cfg.Threshold, NoRead: b.cfg.NoRead, ReceiveDepth: b.cfg.ReceiveBuffers})
		if err != nil {
			return nil, err
		}
		l = &lane{Service: svc, board: b, key: key}
		b.lanes[key] = l
	}
	l.users++
	return l, nil
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
