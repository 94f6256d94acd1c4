package survive

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
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

// The registers of a round: the first are free, the others are guarded by locks.
const (
	freeRegisters = 3
	registers     = 5
	registerSpace = 4096 // bytes of the file
	callsOfRound  = 40   // of each client
	players       = 4
	noisePause    = 200 * time.Microsecond
)

// player is a client that uses registers.
type player struct {
	number    int // from 1
	transport string
	url       string
	file      string
	wires
	reconnect time.Duration // Config.ReconnectTimeout
	r         *rand.Rand
	h         *history
	base      int // the first register of the round
	values    *atomic.Uint64

	c       *lwio.Client
	f       *lwio.File
	unknown []int // writes that may still be done, until a sync
}

// connect connects and opens the file.
func (p *player) connect() error {
	cfg := p.config(p.transport)
	cfg.RequireRDMA, cfg.ReconnectTimeout = false, p.reconnect
	c, err := lwio.Dial(context.Background(), p.url, cfg)
	if err != nil {
		return err
	}
	f, err := c.OpenFile(context.Background(), p.file, os.O_RDWR, 0)
	if err != nil {
		return errors.Join(err, c.Close())
	}
	p.c, p.f = c, f
	return nil
}

// noise reads beside the calls of the player until done ends, so that its connection can be cut while they are
// in flight.
func (p *player) noise(done context.Context) {
	b := make([]byte, 8)
	for ; done.Err() == nil; time.Sleep(noisePause) {
		_, _ = p.f.ReadAtContext(done, b, 0) // done may end it
	}
}

// round makes calls at random.
func (p *player) round(base int) error {
	p.base = base
	done, stop := context.WithCancel(context.Background())
	var noise sync.WaitGroup
	noise.Go(func() { p.noise(done) })
	defer noise.Wait()
	defer stop()
	for range callsOfRound {
		var err error
		switch k := p.r.IntN(20); {
		case k < 8:
			err = p.read(p.r.IntN(freeRegisters))
		case k < 16:
			err = p.write(p.r.IntN(freeRegisters))
		case k < 17:
			err = p.sync()
		default:
			err = p.guard(freeRegisters + p.r.IntN(registers-freeRegisters))
		}
		if err := p.after(err); err != nil {
			return err
		}
	}
	return nil
}

// after decides about the error of a call: only its outcome may be unknown, or another client have the lock.
func (p *player) after(err error) error {
	if err == nil || errors.Is(err, lwio.ErrLocked) || errors.Is(err, lwio.ErrUncertain) {
		return nil
	}
	return fmt.Errorf("client %d over %s: %w", p.number, p.transport, err)
}

func (p *player) off(register int) int64 { return int64(p.base+register) * registerSpace }

func (p *player) lockRange(register int) lwio.Range {
	return lwio.Range{Off: uint64(p.off(register)), Len: registerSpace}
}

func (p *player) call(a action, register int) call {
	return call{action: a, client: p.number, register: p.base + register, guarded: register >= freeRegisters}
}

func (p *player) read(register int) error {
	b := make([]byte, 8)
	i := p.h.begin(p.call(actRead, register))
	_, err := p.f.ReadAt(b, p.off(register))
	if err != nil {
		p.h.refuse(i)
		return err
	}
	p.h.end(i, answer{value: binary.LittleEndian.Uint64(b)})
	return nil
}

func (p *player) write(register int) error {
	c := p.call(actWrite, register)
	c.value = p.values.Add(1)
	i := p.h.begin(c)
	_, err := p.f.WriteAt(binary.LittleEndian.AppendUint64(nil, c.value), p.off(register))
	switch {
	case err == nil:
		p.h.end(i, answer{})
	case errors.Is(err, lwio.ErrUncertain):
		p.unknown = append(p.unknown, i)
		if p.r.IntN(2) == 0 {
			return p.sync() // nothing is done late after it
		}
	default:
		p.h.refuse(i)
	}
	return err
}

// sync ends the writes whose outcome is unknown.
func (p *player) sync() error {
	if err := p.f.Sync(context.Background()); err != nil {
		return err
	}
	for _, i := range p.unknown {
		p.h.end(i, answer{unknown: true})
	}
	p.unknown = nil
	return nil
}

// guard uses a register under its lock.
func (p *player) guard(register int) error {
	ctx := context.Background()
	i := p.h.begin(p.call(actLock, register))
	err := p.f.TryLock(ctx, p.lockRange(register), lwio.LockExclusive)
	switch {
	case errors.Is(err, lwio.ErrLocked):
		p.h.refuse(i)
		return nil
	case err != nil:
		return err // unknown
	}
	p.h.end(i, answer{})
	for range 2 {
		if err := p.read(register); err != nil {
			return p.lockStays(err)
		}
		if err := p.write(register); err != nil && !errors.Is(err, lwio.ErrUncertain) {
			return p.lockStays(err)
		}
	}
	i = p.h.begin(p.call(actUnlock, register))
	if err := p.f.Unlock(ctx, p.lockRange(register)); err != nil {
		return p.lockStays(err)
	}
	p.h.end(i, answer{})
	return nil
}

// errLostLock: a file refuses its own client under its lock.
var errLostLock = errors.New("another client has the lock that this client holds")

// lockStays makes a failure of an error that says that another client has the lock.
func (p *player) lockStays(err error) error {
	if errors.Is(err, lwio.ErrLocked) {
		return fmt.Errorf("%w: %v", errLostLock, err) //nolint:errorlint // ErrLocked alone would be no failure
	}
	return err
}

// makeRegisters makes the file of the registers of some rounds.
func makeRegisters(t *testing.T, dir string, rounds int) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "registers"), make([]byte, (rounds+1)*registers*registerSpace), 0o600); err != nil {
		t.Fatal(err)
	}
}

// newPlayers connects a player by each of the transports.
func newPlayers(t *testing.T, url string, transports []string, reconnect time.Duration) (all []*player) {
	t.Helper()
	values := new(atomic.Uint64)
	for i, transport := range transports {
		p := &player{
			number: i + 1, transport: transport, url: url, file: "registers", reconnect: reconnect,
			r: rand.New(rand.NewPCG(uint64(i), 2)), values: values,
		}
		if err := p.connect(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.c.Close() })
		all = append(all, p)
	}
	return all
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
				h := playRound(t, all, round*registers, func() {
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

// playRound has each player make calls. It calls each every millisecond meanwhile.
func playRound(t *testing.T, all []*player, base int, each func()) *history {
	h := newHistory()
	var over sync.WaitGroup
	for _, p := range all {
		p.h = h
		p.unknown = nil
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
