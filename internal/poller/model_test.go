package poller

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The holders of the role in a model that are not waiters.
const (
	noHolder     = -1
	readerHolder = -2
	takenHolder  = -3 // a call has used Take
)

// model is the state that a poller must have.
type model struct {
	p          *Poller
	w          []*Waiter
	holder     int   // index of a waiter, or one of the holders above
	queue      []int // parked waiters that may be the poller
	readerOnly []int // parked waiters that may not
	blocked    int   // calls of Block
}

// isParked reports whether waiter i is parked.
func (m *model) isParked(i int) bool {
	return slices.Contains(m.queue, i) || slices.Contains(m.readerOnly, i)
}

// remove ends the parking of waiter i.
func (m *model) remove(i int) {
	other := func(k int) bool { return k == i }
	m.queue = slices.DeleteFunc(m.queue, other)
	m.readerOnly = slices.DeleteFunc(m.readerOnly, other)
}

// released checks that waiter i has a token.
func (m *model) released(t *rapid.T, i int, hasRole bool) {
	if released, got := isReleased(m.w[i]); !released || got != hasRole {
		t.Fatalf("waiter %d: released %t, poller %t; want the role: %t", i, released, got, hasRole)
	}
}

// passed notes that the holder has passed the role on.
func (m *model) passed(t *rapid.T) {
	m.holder = noHolder
	if len(m.queue) > 0 {
		m.holder = m.queue[0]
		m.remove(m.holder)
		m.released(t, m.holder, true)
	}
}

// waiter draws a waiter that is parked, or one that does nothing.
func (m *model) waiter(t *rapid.T, parked bool) int {
	i := rapid.IntRange(0, len(m.w)-1).Draw(t, "waiter")
	if m.isParked(i) != parked || m.holder == i {
		t.Skip()
	}
	return i
}

// check demands that the poller agrees with the model.
func (m *model) check(t *rapid.T) {
	if got := m.p.taken.Load(); got != (m.holder != noHolder) {
		t.Fatalf("the role is taken: %t, holder %d", got, m.holder)
	}
	if m.p.byReader != (m.holder == readerHolder) {
		t.Fatalf("the reader is the poller: %t, holder %d", m.p.byReader, m.holder)
	}
	if n := len(m.readerOnly) + m.blocked; int(m.p.readerOnly.Load()) != n {
		t.Fatalf("%d waits need the reader, want %d", m.p.readerOnly.Load(), n)
	}
	at := m.p.head
	for _, i := range m.queue {
		if at != m.w[i] {
			t.Fatalf("waiter %d is not in its place", i)
		}
		at = at.next
	}
	if at != nil {
		t.Fatal("there are more parked waiters")
	}
	for i, w := range m.w {
		if released, _ := isReleased(w); released {
			t.Fatalf("waiter %d has a token", i)
		}
		if got := w.state.Load() == parked; got != m.isParked(i) {
			t.Fatalf("waiter %d is parked: %t", i, got)
		}
	}
	if m.holder != noHolder {
		return
	}
	if len(m.queue) > 0 {
		t.Fatal("a waiter that may be the poller is parked while the role is free")
	}
	summoned := len(m.p.summon) > 0
	if m.p.readerOnly.Load() > 0 && !summoned {
		t.Fatal("a wait needs the reader, and the reader is not summoned")
	}
	if !summoned && !m.p.armed {
		t.Fatal("the role is free, and the reader never takes it")
	}
}

// TestPollerAgreesWithModel applies random calls to a poller: there is one poller at most, the
// role goes to the longest waiter, no token is lost or left, and the reader takes a free role
// in the end.
func TestPollerAgreesWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{p: new(Poller), w: waiters(5), holder: noHolder}
		m.p.Init(1<<60, 1<<60)
		defer m.p.timer.Stop()
		t.Repeat(map[string]func(*rapid.T){
			"park": func(t *rapid.T) {
				i, mayPoll := m.waiter(t, false), rapid.Bool().Draw(t, "may poll")
				became := m.p.Park(m.w[i], mayPoll)
				if became != (mayPoll && m.holder == noHolder) {
					t.Fatalf("waiter %d is the poller: %t, holder %d", i, became, m.holder)
				}
				switch {
				case became:
					m.holder = i
				case mayPoll:
					m.queue = append(m.queue, i)
				default:
					m.readerOnly = append(m.readerOnly, i)
				}
			},
			"wake": func(t *rapid.T) {
				i := rapid.IntRange(0, len(m.w)-1).Draw(t, "waiter")
				wasParked := m.isParked(i)
				if m.p.Wake(m.w[i]); wasParked {
					m.remove(i)
					m.released(t, i, false)
				}
			},
			"leave": func(t *rapid.T) {
				i := m.waiter(t, true)
				m.p.Leave(m.w[i])
				m.remove(i)
			},
			"leave after the role came": func(t *rapid.T) {
				if m.holder == noHolder || len(m.queue) == 0 {
					t.Skip()
				}
				m.p.Pass()
				first := m.queue[0]
				m.remove(first)
				m.p.Leave(m.w[first])
				m.passed(t)
			},
			"pass": func(t *rapid.T) {
				if m.holder == noHolder {
					t.Skip()
				}
				m.p.Pass()
				m.passed(t)
			},
			"take": func(t *rapid.T) {
				if m.p.Take() != (m.holder == noHolder) {
					t.Fatalf("Take disagrees with holder %d", m.holder)
				}
				if m.holder == noHolder {
					m.holder = takenHolder
				}
			},
			"claim": func(*rapid.T) { m.p.Claim() },
			"block": func(*rapid.T) { m.p.Block(); m.blocked++ },
			"unblock": func(t *rapid.T) {
				if m.blocked == 0 {
					t.Skip()
				}
				m.p.Unblock()
				m.blocked--
			},
			"the timer fires": func(t *rapid.T) {
				if !m.p.armed {
					t.Skip()
				}
				m.p.tick()
			},
			"the reader comes": func(t *rapid.T) {
				if !isSummoned(m.p) {
					t.Skip()
				}
				if m.p.takeForReader() {
					if m.holder != noHolder {
						t.Fatalf("the reader takes the role of holder %d", m.holder)
					}
					m.holder = readerHolder
				}
			},
			"": m.check,
		})
	})
}
