package survive

import (
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lwio"
	"lwio/lwiotest"
	"lwio/rdma/rdmatest/fault"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// A history of calls that one order explains passes, and others do not.
func TestModelOfRegisters(t *testing.T) {
	type step struct {
		c          call
		a          answer
		begin, end int64
	}
	write := func(client int, value uint64) call { return call{action: actWrite, client: client, value: value} }
	read := call{action: actRead, client: 3}
	guarded := func(c call) call { c.guarded = true; return c }
	lock := func(client int) call { return call{action: actLock, client: client} }
	unknown := answer{unknown: true}
	synced, powerCut := call{action: actSync, client: 2}, call{action: actPowerCut}
	kill := call{action: actKill, value: 1<<1 | 1<<2}
	returns := func(client int) call { return call{action: actReturn, client: client} }
	opens := call{action: actOpen, client: 3}
	rebooted := func(c call) call { c.boot++; return c }
	for name, c := range map[string]struct {
		steps []step
		want  bool
	}{
		"one after another": {[]step{{write(1, 5), answer{}, 0, 1}, {read, answer{value: 5}, 2, 3}}, true},
		"a lost write":      {[]step{{write(1, 5), answer{}, 0, 1}, {read, answer{}, 2, 3}}, false},
		"unknown, not done": {[]step{{write(1, 5), unknown, 0, 1}, {read, answer{}, 2, 3}}, true},
		"unknown, done":     {[]step{{write(1, 5), unknown, 0, 1}, {read, answer{value: 5}, 2, 3}}, true},
		"done after its end": {[]step{
			{write(1, 5), unknown, 0, 3}, {read, answer{}, 4, 5}, {read, answer{value: 5}, 6, 7}}, false},
		"done twice": {[]step{
			{write(1, 5), answer{}, 0, 9}, {read, answer{value: 5}, 1, 2}, {write(2, 6), answer{}, 3, 4},
			{read, answer{value: 6}, 5, 6}, {read, answer{value: 5}, 7, 8}}, false},
		"two holders": {[]step{{lock(1), answer{}, 0, 1}, {lock(2), answer{}, 2, 3}}, false},
		"a write that comes after its lock": {[]step{
			{lock(1), answer{}, 0, 1}, {guarded(write(1, 5)), unknown, 2, 9}, {call{action: actUnlock, client: 1}, answer{}, 3, 4},
			{lock(2), answer{}, 5, 6}, {guarded(call{action: actRead, client: 2}), answer{value: 5}, 7, 8}}, true},
		"a write that comes under another's lock": {[]step{
			{lock(1), answer{}, 0, 1}, {guarded(write(1, 5)), unknown, 2, 19}, {call{action: actUnlock, client: 1}, answer{}, 3, 4},
			{lock(2), answer{}, 5, 6}, {guarded(call{action: actRead, client: 2}), answer{}, 7, 8},
			{guarded(call{action: actRead, client: 2}), answer{value: 5}, 9, 10}}, false},
		"lost with the power": {[]step{
			{write(1, 5), answer{}, 0, 1}, {powerCut, answer{}, 2, 3}, {rebooted(read), answer{}, 4, 5}}, true},
		"kept without a sync": {[]step{
			{write(1, 5), answer{}, 0, 1}, {powerCut, answer{}, 2, 3}, {rebooted(read), answer{value: 5}, 4, 5}}, true},
		"lost after a sync": {[]step{
			{write(1, 5), answer{}, 0, 1}, {synced, answer{}, 2, 3}, {powerCut, answer{}, 4, 5}, {rebooted(read), answer{}, 6, 7}}, false},
		"lost after a sync that failed": {[]step{
			{write(1, 5), answer{}, 0, 1}, {synced, unknown, 2, 3}, {powerCut, answer{}, 4, 5}, {rebooted(read), answer{}, 6, 7}}, true},
		"written during a sync, and lost": {[]step{
			{synced, answer{}, 0, 3}, {write(1, 5), answer{}, 1, 2}, {powerCut, answer{}, 4, 5}, {rebooted(read), answer{}, 6, 7}}, true},
		"a file that outlives the power": {[]step{
			{write(1, 5), answer{}, 0, 1}, {powerCut, answer{}, 2, 3}, {synced, answer{}, 4, 5}}, false},
		"a lock that ends with the power": {[]step{
			{lock(1), answer{}, 0, 1}, {powerCut, answer{}, 2, 3}, {rebooted(lock(2)), answer{}, 4, 5}}, true},
		"opened before others return": {[]step{
			{opens, answer{}, 0, 1}, {kill, answer{}, 2, 3}, {returns(1), answer{}, 4, 5}, {opens, answer{}, 6, 7}, {returns(2), answer{}, 8, 9}}, false},
		"opened after others return": {[]step{
			{kill, answer{}, 0, 1}, {returns(2), answer{}, 2, 99}, {returns(1), answer{}, 4, 99}, {opens, answer{}, 6, 7}}, true},
		"opened at the kill": {[]step{{kill, answer{}, 0, 9}, {opens, answer{}, 6, 7}}, true},
	} {
		h := newHistory()
		for _, s := range c.steps {
			i := h.begin(s.c)
			h.end(i, s.a)
			h.list[i].Call, h.list[i].Return = s.begin, s.end
		}
		if wrong := h.wrong(); (len(wrong) == 0) != c.want {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}

// sluggish is a backend whose writes take a random time, so that a write of a lost connection can be done late.
type sluggish struct{ vfs.Backend }

func (d sluggish) Open(path string, how vfs.HandleMode) (vfs.Handle, error) {
	return d.slow(d.Backend.Open(path, how))
}

func (d sluggish) Create(path string, how vfs.HandleMode, readOnly bool) (vfs.Handle, error) {
	return d.slow(d.Backend.Create(path, how, readOnly))
}

func (d sluggish) slow(h vfs.Handle, err error) (vfs.Handle, error) {
	if err != nil {
		return nil, err
	}
	return sluggishFile{h}, nil
}

type sluggishFile struct{ vfs.Handle }

func (f sluggishFile) WriteAt(p []byte, off int64, durable bool) (int, error) {
	f.delay()
	n, err := f.Handle.WriteAt(p, off, durable)
	f.delay() // the answer comes late
	return n, err
}

func (f sluggishFile) WriteVec(pieces [][]byte, off int64, durable bool) (int, error) {
	f.delay()
	return f.Handle.WriteVec(pieces, off, durable)
}

func (sluggishFile) delay() {
	if rand.IntN(8) == 0 {
		time.Sleep(rand.N(20 * time.Millisecond))
	}
}

// TestHistoryIsLinearizable lets clients read, write, lock and sync registers, over shm and iwarp, while the
// connections of SMB and RDMA are cut, before requests and before answers. One order of the calls, each
// between its begin and its end, explains all answers.
//
// Source: [OP-92d], [OP-112]
func TestHistoryIsLinearizable(t *testing.T) {
	for _, c := range []struct {
		name       string
		rdma, smb  float64 // chances of a cut: for each request, and each millisecond
		reconnect  time.Duration
		transports [players]string
	}{
		{"replay", 0.005, 0, time.Minute, [...]string{"shm", "iwarp", "shm", "iwarp"}},
		{"uncertain", 0.005, 0, 1, [...]string{"shm", "iwarp", "shm", "iwarp"}},
		{"SMB", 0, 0.05, time.Minute, [...]string{"shm", lwio.TransportSMB, lwio.TransportSMB, "iwarp"}},
		{"both", 0.005, 0.05, time.Minute, [...]string{"shm", "iwarp", lwio.TransportSMB, "iwarp"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			disk, err := posix.OpenDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			var cut atomic.Bool
			cfg := &lwiotest.Config{Backend: sluggish{disk}}
			for _, p := range lwio.DefaultProviders() {
				cfg.Providers = append(cfg.Providers, fault.Wrap(p, &fault.Config{Fault: func(a fault.Attempt) fault.Action {
					if cut.Load() && a.N > 10 && rand.Float64() < c.rdma {
						return fault.Cut()
					}
					return fault.Pass()
				}}))
			}
			s := lwiotest.NewServer(t, cfg)
			rounds := *kills
			makeRegisters(t, dir, rounds)
			all := newPlayers(t, s.URL(), c.transports[:], c.reconnect)
			var lost, again, smb, calls uint64
			cut.Store(true)
			for round := range rounds {
				cut := func(p *player) error {
					p.cutRDMA()
					if c.smb > 0 {
						p.cutSMB()
					}
					return nil
				}
				if round%contestEvery != 0 {
					cut = nil
				}
				h := playRound(t, all, round*registers, cut, func() {
					if rand.Float64() < c.smb {
						all[rand.IntN(players)].cutSMB()
					}
				})
				calls += uint64(len(h.list))
				if wrong := h.wrong(); len(wrong) > 0 || t.Failed() {
					t.Fatalf("round %d: no order explains\n%s", round, strings.Join(wrong, "\n"))
				}
			}
			cut.Store(false)
			for _, p := range all {
				st := p.c.Stats()
				lost, again, smb = lost+st.Lost, again+st.ReplayedWrites, smb+st.SMBReconnects
			}
			t.Logf("%d calls; %d connections of RDMA and %d sessions of SMB replaced, %d writes sent again", calls, lost, smb, again)
		})
	}
}

// playRound has each player make calls. It calls each every millisecond meanwhile. If refused is not nil, the round has a
// contest, and each player that has been refused the lock for long calls refused.
func playRound(t *testing.T, all []*player, base int, refused func(p *player) error, each func()) *history {
	h, contest := newHistory(), newContest(len(all), refused)
	var over sync.WaitGroup
	for _, p := range all {
		p.h, p.contest, p.unknown = h, contest, nil
		if p.power != nil {
			h.boot = p.power.boots()
		}
	}
	for _, p := range all {
		over.Go(func() {
			if err := p.round(base); err != nil {
				t.Error(err)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		over.Wait()
		close(done)
	}()
	for {
		select {
		case <-done:
			return h
		case <-time.After(time.Millisecond):
			each()
		}
	}
}
