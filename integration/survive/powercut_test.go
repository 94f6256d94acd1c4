package survive

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lwio"
	"lwio/integration/internal/lossyfs"
	"lwio/integration/internal/supervise"
)

// power is the power of a host with a server and its disk. Its counts are safe for concurrent use.
type power struct {
	srv   *supervise.Server
	state string // the directory of the state
	disk  *lossyfs.FS
	edges atomic.Int64 // the begin and the end of each power cut
}

// boots is the number of power cuts, one in progress included.
func (w *power) boots() int { return int(w.edges.Load()+1) / 2 }

// ended reports whether the power was cut after so many cuts.
func (w *power) ended(boot int) bool { return w.boots() > boot }

// cut cuts the power, which the history has as a call on each register, and starts the host again.
func (w *power) cut(h *history, base int) error {
	all := h.beginAll(call{action: actPowerCut, register: base})
	w.edges.Add(1)
	if err := w.srv.Kill(); err != nil {
		return err
	}
	w.disk.PowerCut()
	if err := rebooted(w.state); err != nil {
		return err
	}
	w.edges.Add(1)
	h.endAll(all, answer{})
	return w.srv.Start()
}

// reopen connects again after a power cut, which has ended the file.
func (p *player) reopen() error {
	_ = p.c.Close() // it reports the loss
	p.settle()      // the process that the writes were sent to is dead
	for end := time.Now().Add(patience); ; time.Sleep(retry) {
		edges := p.power.edges.Load()
		err := p.connect()
		if err == nil && edges%2 == 0 && edges == p.power.edges.Load() {
			p.boot = p.power.boots()
			return nil
		}
		if err == nil {
			_ = p.c.Close()
		} else if time.Now().After(end) {
			return err
		}
	}
}

// TestHistoryOutlivesPowerCuts lets clients read, write, lock and sync registers over shm, iwarp and SMB, while the power
// of the host is cut, which loses data that was not synced. One order of the calls explains all answers: a write is
// kept if a sync after it was answered, by any client, and no file that was open before the cut has an answer
// after it.
//
// Source: [OP-92f]
func TestHistoryOutlivesPowerCuts(t *testing.T) {
	disk, dir := lossyDisk(t)
	disk.Direct()
	disk.Put("registers", make([]byte, *kills*registers*registerSpace))
	flags := stateFlags(t, true)
	s := serve(t, dir, flags...)
	host := &power{srv: s, state: flags[1], disk: disk}
	all := newPlayers(t, s.URL(""), []string{"shm", "iwarp", lwio.TransportSMB, "iwarp"}, time.Minute)
	for _, p := range all {
		p.power = host
	}
	calls, lost := 0, 0
	for round := range *kills {
		base := round * registers
		wait := 1 + rand.IntN(10) // milliseconds until the cut
		h := playRound(t, all, base, nil, func() {
			if wait--; wait == 0 {
				if err := host.cut(all[0].h, base); err != nil {
					t.Error(err)
				}
			}
		})
		calls += len(h.list)
		if wrong := h.wrong(); len(wrong) > 0 || t.Failed() {
			t.Fatalf("round %d: no order explains\n%s", round, strings.Join(wrong, "\n"))
		}
		lost = host.boots()
	}
	for _, p := range all {
		err := errors.Join(p.f.Close(), p.c.Close())
		if err != nil && !errors.Is(err, lwio.ErrStale) { // no call since the last cut
			t.Error(err)
		}
	}
	t.Logf("%d calls; %d power cuts", calls, lost)
	expectNothingLeft(t, s)
}
