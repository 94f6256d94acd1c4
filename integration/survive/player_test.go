package survive

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lwio"
	"lwio/internal/test/faultconn"
)

// The registers of a round: the first are free, the others are guarded by locks.
const (
	freeRegisters = 3
	contested     = 5 // see contest
	registers     = 6
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
	link      *faultconn.Link // in place of the wires for SMB, or nil
	reconnect time.Duration   // Config.ReconnectTimeout
	r         *rand.Rand
	h         *history
	base      int // the first register of the round
	values    *atomic.Uint64
	contest   *contest
	power     *power // nil without power cuts

	c       *lwio.Client
	f       *lwio.File
	boot    int   // power cuts before the file was opened
	unknown []int // writes that may still be done, until a sync
}

// connect connects and opens the file.
func (p *player) connect() error {
	cfg := p.config(p.transport)
	cfg.RequireRDMA, cfg.ReconnectTimeout = false, p.reconnect
	if p.link != nil {
		cfg.DialContext = p.link.DialContext
	}
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
	if p.power == nil {
		noise.Go(func() { p.noise(done) })
	}
	defer noise.Wait()
	defer stop()
	defer p.contest.leave(p.number)
	contend := p.r.IntN(callsOfRound)
	for i := range callsOfRound {
		var err error
		switch k := p.r.IntN(20); {
		case i == contend && p.contest.refused != nil:
			err = p.contend()
		case k < 8:
			err = p.read(p.r.IntN(freeRegisters))
		case k < 16:
			err = p.write(p.r.IntN(freeRegisters))
		case k < 17:
			err = p.sync()
		default:
			err = p.guard(freeRegisters + p.r.IntN(contested-freeRegisters))
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
	if p.power != nil && p.power.ended(p.boot) && (errors.Is(err, lwio.ErrStale) || errors.Is(err, net.ErrClosed)) {
		err = p.reopen()
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("client %d over %s: %w", p.number, p.transport, err)
}

func (p *player) off(register int) int64 { return int64(p.base+register) * registerSpace }

func (p *player) lockRange(register int) lwio.Range {
	return lwio.Range{Off: uint64(p.off(register)), Len: registerSpace}
}

func (p *player) call(a action, register int) call {
	return call{action: a, client: p.number, register: p.base + register, guarded: register >= freeRegisters, boot: p.boot - p.h.boot}
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
	case errors.Is(err, lwio.ErrStale), errors.Is(err, net.ErrClosed): // done before the death of the server, or not
		p.h.end(i, answer{unknown: true})
	default:
		p.h.refuse(i)
	}
	return err
}

// sync syncs all registers. It ends the writes whose outcome is unknown. A sync that fails may have synced them, or not.
func (p *player) sync() error {
	all := p.h.beginAll(p.call(actSync, 0))
	if err := p.f.Sync(context.Background()); err != nil {
		return err
	}
	p.h.endAll(all, answer{})
	p.settle()
	return nil
}

// settle ends the writes whose outcome is unknown: none of them is done from now on.
func (p *player) settle() {
	p.h.endAll(p.unknown, answer{unknown: true})
	p.unknown = nil
}

// guard uses a register under its lock.
func (p *player) guard(register int) error {
	if err := p.tryLock(register); err != nil {
		return err
	}
	for range 2 {
		if err := p.read(register); err != nil {
			return p.lockStays(err)
		}
		if err := p.write(register); err != nil && !errors.Is(err, lwio.ErrUncertain) {
			return p.lockStays(err)
		}
	}
	return p.unlock(register)
}

// tryLock locks a register if no other client does.
func (p *player) tryLock(register int) error {
	i := p.h.begin(p.call(actLock, register))
	err := p.f.TryLock(context.Background(), p.lockRange(register), lwio.LockExclusive)
	switch {
	case errors.Is(err, lwio.ErrLocked):
		p.h.refuse(i)
	case err == nil:
		p.h.end(i, answer{})
	}
	return err // with another error the outcome is unknown
}

func (p *player) unlock(register int) error {
	i := p.h.begin(p.call(actUnlock, register))
	if err := p.f.Unlock(context.Background(), p.lockRange(register)); err != nil {
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

// newPlayer makes a player, which is not connected.
func newPlayer(url string, i int, transport string, reconnect time.Duration, values *atomic.Uint64) *player {
	return &player{
		number: i + 1, transport: transport, url: url, file: "registers", reconnect: reconnect,
		r: rand.New(rand.NewPCG(uint64(i), 2)), values: values,
	}
}

// newPlayers connects a player by each of the transports.
func newPlayers(t *testing.T, url string, transports []string, reconnect time.Duration) (all []*player) {
	t.Helper()
	values := new(atomic.Uint64)
	for i, transport := range transports {
		p := newPlayer(url, i, transport, reconnect, values)
		if err := p.connect(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.c.Close() })
		all = append(all, p)
	}
	return all
}
