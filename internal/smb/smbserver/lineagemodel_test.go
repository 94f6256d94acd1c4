package smbserver

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"lwio/internal/ntstatus"
	"lwio/vfs"
)

// modelOpen is an open of modelClient. end is zero while a session has the open.
type modelOpen struct {
	o      *open
	d      *durable
	file   int
	share  bool
	locked bool
	time   time.Duration
	end    time.Time
}

// orphaned reports whether the open has no session.
func (o *modelOpen) orphaned() bool { return !o.end.IsZero() }

// modelClient is a client of the model test. session is nil while it has none.
type modelClient struct {
	user    string
	guid    byte
	session *Session
	last    uint64
	opens   []*modelOpen
}

// lineageModel compares a server with a simple model of its durable opens.
type lineageModel struct {
	t       *testing.T
	s       *bareServer
	clients []*modelClient
	next    byte // GUID
}

// action is one step of the model test.
type action struct{ Kind, Client, File, Which, Seconds int }

// expire removes the orphans whose time has ended.
func (m *lineageModel) expire() {
	for _, c := range m.clients {
		kept := c.opens[:0]
		for _, o := range c.opens {
			if !o.orphaned() || o.end.After(time.Now()) {
				kept = append(kept, o)
			}
		}
		c.opens = kept
	}
}

// wantOpen is the status of a new open.
func (m *lineageModel) wantOpen(file int, share bool) (want ntstatus.Status) {
	for _, c := range m.clients {
		for _, o := range c.opens {
			if o.file != file || o.share && share {
				continue
			}
			if !o.orphaned() {
				return ntstatus.SharingViolation
			}
			want = ntstatus.FileNotAvailable
		}
	}
	return want
}

// do performs a step and returns an error if the server and the model differ.
func (m *lineageModel) do(a action) error {
	c := m.clients[a.Client]
	var o *modelOpen
	if len(c.opens) > 0 {
		o = c.opens[a.Which%len(c.opens)]
	}
	switch {
	case a.Kind == 0:
		time.Sleep(time.Duration(a.Seconds) * time.Second)
	case a.Kind == 1 && c.session == nil:
		return m.resume(c)
	case a.Kind <= 2 && c.session != nil:
		return m.open(c, a)
	case a.Kind == 3 && c.session != nil:
		m.lose(c, a.Which%2 == 0)
	case a.Kind == 4 && c.session != nil && o != nil:
		return m.reclaim(c, o)
	case a.Kind == 5 && c.session != nil && o != nil && !o.orphaned():
		return m.lock(o)
	case a.Kind == 6 && c.session != nil && o != nil && !o.orphaned():
		c.session.handles.remove(o.o)
		o.o.close()
		o.end = time.Now()
	case a.Kind == 7 && c.session != nil:
		c.session.loggedOff.Store(true)
		c.session.end()
		c.session, c.opens = nil, nil
	}
	return nil
}

func (m *lineageModel) resume(c *modelClient) error {
	ss, resumed := m.s.session(m.t, c.user, c.guid, c.last)
	if want := len(c.opens) > 0; resumed != want {
		return fmt.Errorf("the lineage is continued: %t, want %t", resumed, want)
	}
	c.session, c.last = ss, ss.id
	return nil
}

func (m *lineageModel) open(c *modelClient, a action) error {
	n := &modelOpen{file: a.File, share: a.Which%2 == 0, time: time.Duration(a.Seconds)*5*time.Second + time.Second/2}
	mode := vfs.ShareMode(0)
	if n.share {
		mode = vfs.ShareAll
	}
	m.next++
	var err error
	n.o, err = m.s.open(c.session, fmt.Sprint("f", a.File), mode, m.next, n.time)
	if want := m.wantOpen(a.File, n.share); ntstatus.Of(err) != want {
		return fmt.Errorf("open: %w, want %w", err, want)
	}
	if err == nil {
		n.d = n.o.durable
		c.opens = append(c.opens, n)
	}
	return nil
}

// lose ends the session of a client, as the loss of the connection or a new session does.
func (m *lineageModel) lose(c *modelClient, retires bool) {
	if retires {
		c.session.retire()
	} else {
		c.session.suspend()
	}
	c.session = nil
	for _, o := range c.opens {
		if !o.orphaned() {
			o.end = time.Now().Add(o.time)
		}
	}
}

func (m *lineageModel) reclaim(c *modelClient, o *modelOpen) error {
	n := &open{tree: o.o.tree}
	st := m.s.lineages.claim(o.d, c.session, n)
	want := ntstatus.Success
	if !o.orphaned() {
		want = ntstatus.ObjectNameNotFound
	}
	if st != want {
		return fmt.Errorf("reclaim: %w, want %w", st, want)
	}
	if st != ntstatus.Success {
		return nil
	}
	if st := c.session.handles.connect(n.tree); st != ntstatus.Success {
		return st
	}
	o.o, o.end = n, time.Time{}
	if st := c.session.add(n); st != ntstatus.Success {
		return st
	}
	return nil
}

func (m *lineageModel) lock(o *modelOpen) error {
	want := ntstatus.Success
	for _, c := range m.clients {
		for _, other := range c.opens {
			if other.file == o.file && other.locked {
				want = ntstatus.LockNotGranted
			}
		}
	}
	err := o.o.file.TryLock(vfs.Lock{Range: vfs.Range{Off: 5, Len: 1}, Exclusive: true})
	if ntstatus.Of(err) != want {
		return fmt.Errorf("lock: %w, want %w", err, want)
	}
	o.locked = o.locked || err == nil
	return nil
}

// check compares the numbers of opens, orphans and locks.
func (m *lineageModel) check() error {
	synctest.Wait()
	m.expire()
	var opens, orphans, locks int
	for _, c := range m.clients {
		for _, o := range c.opens {
			opens++
			if o.orphaned() {
				orphans++
			}
			if o.locked {
				locks++
			}
		}
	}
	st, files := m.s.Stats(), m.s.cfg.FS.Stats()
	if files.Opens != opens || st.Orphans != orphans || files.Locks != locks {
		return fmt.Errorf("%d opens, %d orphans, %d locks; want %d, %d, %d", files.Opens, st.Orphans, files.Locks, opens, orphans, locks)
	}
	return nil
}

// Random opens, locks, losses, sessions, reclaims and times: the server agrees with the model after each
// step, and holds nothing at the end.
//
// Source: [OP-42], [OP-56], [MS-SMB2 3.3.5.9.12]
func TestLineagesAgreeWithModel(t *testing.T) {
	step := rapid.Custom(func(t *rapid.T) action {
		return action{
			rapid.IntRange(0, 7).Draw(t, "kind"), rapid.IntRange(0, 2).Draw(t, "client"), rapid.IntRange(0, 1).Draw(t, "file"),
			rapid.IntRange(0, 7).Draw(t, "which"), rapid.IntRange(1, 9).Draw(t, "seconds"),
		}
	})
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(step, 1, 60).Draw(rt, "steps")
		var failure error
		synctest.Test(t, func(t *testing.T) {
			s, stop := newBareServer(t, dir)
			defer stop()
			m := &lineageModel{t: t, s: s, clients: []*modelClient{{user: testUser, guid: 1}, {user: testUser, guid: 2}, {user: "bob", guid: 1}}}
			for i, a := range steps {
				if failure = m.do(a); failure == nil {
					failure = m.check()
				}
				if failure != nil {
					failure = fmt.Errorf("step %d, %+v: %w", i, a, failure)
					return
				}
			}
		})
		if failure != nil {
			rt.Fatal(failure)
		}
	})
}
