package survive

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lwio"
)

// TestHistoryOutlivesKills lets clients read, write, lock and sync registers over shm, iwarp and SMB, while the server is
// killed and its connections are cut. One order of the calls explains all answers: no write is done after the death of
// the process that it was sent to, none that was acknowledged is lost, and no two clients have a lock.
//
// Source: [OP-92d], [OP-112]
func TestHistoryOutlivesKills(t *testing.T) {
	dir := t.TempDir()
	makeRegisters(t, dir, *kills)
	s := serve(t, dir, stateFlags(t, true)...)
	all := newPlayers(t, s.URL(""), []string{"shm", "iwarp", lwio.TransportSMB, "iwarp"}, time.Minute)
	calls := 0
	var one sync.Mutex
	kill := func() error {
		one.Lock()
		defer one.Unlock()
		return errors.Join(s.Kill(), s.Start())
	}
	cut := func(p *player) { cuts[rand.IntN(len(cuts))].do(&p.wires) }
	for round := range *kills {
		wait := 1 + rand.IntN(10) // milliseconds until the kill
		var first atomic.Bool
		refused := func(p *player) error {
			if first.CompareAndSwap(false, true) {
				return kill()
			}
			cut(p)
			return nil
		}
		if round%contestEvery != 0 {
			refused = nil
		}
		h := playRound(t, all, round*registers, refused, func() {
			switch wait--; {
			case wait == 0:
				time.Sleep(rand.N(time.Millisecond))
				if err := kill(); err != nil {
					t.Error(err)
				}
			case rand.IntN(20) == 0:
				cut(all[rand.IntN(len(all))])
			}
		})
		calls += len(h.list)
		if wrong := h.wrong(); len(wrong) > 0 || t.Failed() {
			t.Fatalf("round %d: no order explains\n%s", round, strings.Join(wrong, "\n"))
		}
	}
	var smb uint64
	for _, p := range all {
		smb += p.c.Stats().SMBReconnects
		if err := errors.Join(p.f.Close(), p.c.Close()); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d calls; %d sessions of SMB replaced", calls, smb)
	expectNothingLeft(t, s)
}
