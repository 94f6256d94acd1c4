package survive

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lwio/internal/test/faultconn"
)

// newcomer is a client that opens the file of the registers again and again, and uses it. It has no open of it for long.
type newcomer struct {
	*player
	creates atomic.Int64 // CREATE requests in the present phase
	opened  atomic.Int64 // the phase in which the last open that has succeeded began
}

// refusedCreates is the number of CREATE requests of one open after which the server has refused the first one.
const refusedCreates = 2

// watch counts the CREATE requests.
func (n *newcomer) watch() {
	const smbCreate = 0x05
	n.link = new(faultconn.Link)
	n.link.Judge(func(command uint16) faultconn.Fate {
		if command == smbCreate {
			n.creates.Add(1)
		}
		return faultconn.Pass
	})
}

// open opens the file, as soon as the server lets it, and uses it.
func (n *newcomer) open(phase int64) error {
	i := n.h.begin(call{action: actOpen, client: n.number, register: wholeFile})
	f, err := n.c.OpenFile(context.Background(), n.file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	n.h.end(i, answer{})
	n.f = f
	if err := errors.Join(n.after(n.uses()), f.Close()); err != nil {
		return err
	}
	n.opened.Store(phase)
	return nil
}

// uses makes some calls.
func (n *newcomer) uses() error {
	register := n.r.IntN(freeRegisters)
	if err := n.read(register); err != nil {
		return err
	}
	if err := n.write(register); err != nil {
		return err
	}
	return n.guard(freeRegisters)
}

// graceRound kills the server of a round while some clients that have the file open cannot return, lets them
// return once each newcomer has tried to open the file, and ends once each has opened it.
type graceRound struct {
	h         *history
	holders   []*player
	newcomers []*newcomer
	phase     atomic.Int64
	over      atomic.Bool
	clients   sync.WaitGroup
}

// start has the clients work.
func (g *graceRound) start(t *testing.T, base int) {
	for _, p := range g.holders {
		p.h, p.base, p.unknown = g.h, base, nil
		g.clients.Go(func() {
			for !g.over.Load() {
				if err := p.after(p.uses()); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	for _, n := range g.newcomers {
		n.h, n.base, n.unknown = g.h, base, nil
		g.clients.Go(func() {
			for !g.over.Load() {
				if err := n.open(g.phase.Load()); err != nil {
					t.Errorf("newcomer %d over %s: %v", n.number, n.transport, err)
					return
				}
			}
		})
	}
}

// wait begins a phase, and waits until each newcomer has opened the file in it, or been refused it if that is enough.
func (g *graceRound) wait(t *testing.T, refused bool) {
	for _, n := range g.newcomers {
		n.creates.Store(0)
	}
	phase := g.phase.Add(1)
	end := time.Now().Add(patience)
	for _, n := range g.newcomers {
		for n.opened.Load() < phase && !(refused && n.creates.Load() >= refusedCreates) && !t.Failed() {
			if time.Sleep(time.Millisecond); time.Now().After(end) {
				t.Errorf("newcomer %d over %s has not opened the file; refused: %v", n.number, n.transport, refused)
			}
		}
	}
}

// uses makes a call.
func (p *player) uses() error {
	switch register := p.r.IntN(contested); {
	case register >= freeRegisters:
		return p.guard(register)
	case p.r.IntN(2) == 0:
		return p.read(register)
	default:
		return p.write(register)
	}
}

// TestHistoryHasGracePeriods kills the server while several clients have a file open, some of which cannot
// return for a while. Others open the file anew, before and after. One order of the calls, the kills and the returns
// explains all answers: after a kill no other client opens the file until all have returned, and then each does.
//
// Source: [OP-112]
func TestHistoryHasGracePeriods(t *testing.T) {
	dir := t.TempDir()
	makeRegisters(t, dir, *kills)
	s := serve(t, dir, stateFlags(t, true)...)
	g := graceRound{holders: newPlayers(t, s.URL(""), transports, time.Minute)}
	for i, transport := range transports {
		n := &newcomer{player: newPlayer(s.URL(""), len(transports)+i, transport, time.Minute, g.holders[0].values)}
		n.watch()
		if err := n.connect(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.c.Close() })
		if err := n.f.Close(); err != nil {
			t.Fatal(err)
		}
		g.newcomers = append(g.newcomers, n)
	}
	t.Cleanup(func() { // of a round that has failed
		g.over.Store(true)
		for _, p := range g.holders {
			p.refuse.Store(false)
		}
		g.clients.Wait()
	})
	calls := 0
	for round := range *kills {
		g.h = newHistory()
		g.over.Store(false)
		g.start(t, round*registers)
		time.Sleep(rand.N(10 * time.Millisecond))
		kill := call{action: actKill, register: wholeFile}
		var away []*player
		for _, i := range rand.Perm(len(g.holders))[:1+rand.IntN(len(g.holders))] {
			p := g.holders[i]
			p.refuse.Store(true)
			kill.value |= 1 << p.number
			away = append(away, p)
		}
		i := g.h.begin(kill)
		err := s.Kill()
		g.h.end(i, answer{})
		if err := errors.Join(err, s.Start()); err != nil {
			t.Fatal(err)
		}
		g.wait(t, true)
		for _, p := range away {
			g.h.returns(call{action: actReturn, client: p.number, register: wholeFile})
			p.refuse.Store(false)
		}
		g.wait(t, false)
		g.over.Store(true)
		g.clients.Wait()
		calls += len(g.h.list)
		if wrong := g.h.wrong(); len(wrong) > 0 || t.Failed() {
			t.Fatalf("round %d: no order explains\n%s", round, strings.Join(wrong, "\n"))
		}
	}
	for _, p := range g.holders {
		if err := errors.Join(p.f.Close(), p.c.Close()); err != nil {
			t.Error(err)
		}
	}
	for _, n := range g.newcomers {
		if err := n.c.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d calls", calls)
	expectNothingLeft(t, s)
}
