package smbserver

import (
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"lwio/internal/ntstatus"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// bareServer is a server without listeners over a new directory.
type bareServer struct {
	*Server
	lost [](func()) // of the connections
}

// newBareServer returns a server. stop closes it, and checks that nothing is left.
func newBareServer(t *testing.T, dir string) (s *bareServer, stop func()) {
	t.Helper()
	b, err := posix.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	fs, err := vfs.New(vfs.Config{Shares: []vfs.Share{{Name: "data", Backend: b}}})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := New(Config{FS: fs, Lookup: lookupTest})
	if err != nil {
		t.Fatal(err)
	}
	s = &bareServer{Server: srv}
	return s, func() {
		srv.lineages.stop()
		for _, ss := range srv.validSessions() {
			ss.suspend()
		}
		srv.Close()
		if err := fs.Close(); err != nil {
			t.Error(err)
		}
		if st := fs.Stats(); st.Opens != 0 || st.Locks != 0 || srv.memory.Held() != 0 {
			t.Errorf("%d opens, %d locks and %d bytes are left", st.Opens, st.Locks, srv.memory.Held())
		}
		checkNoLineages(t, srv.lineages)
		for _, close := range s.lost {
			close()
		}
	}
}

// session returns a valid session of a user, from a new connection of a client, which names the
// previous session.
func (s *bareServer) session(t *testing.T, user string, client byte, previous uint64) (ss *Session, resumed bool) {
	t.Helper()
	near, far := net.Pipe()
	c := newConn(s.Server, near)
	c.agreed.client.GUID[0] = client
	c.sessions.start(func() {})
	ss = newSession(c)
	if ss == nil || !c.sessions.add(ss, s.addSession) {
		t.Fatal("no session")
	}
	s.lost = append(s.lost, func() {
		c.cut(errServerClosed)
		c.sessions.stop()
		far.Close()
	})
	ss.user = user
	ss.proven.Store(&proof{byTicket: true})
	resumed = ss.succeed(previous)
	if !c.sessions.establish(ss) {
		t.Fatal("too many sessions")
	}
	return ss, resumed
}

// open makes a durable open of a session.
func (s *bareServer) open(ss *Session, name string, share vfs.ShareMode, guid byte, timeout time.Duration) (*open, error) {
	d := &durable{key: durableKey{client: ss.lineage.client, guid: [16]byte{guid}, user: ss.user}, timeout: timeout}
	if s.lineages.reserve(d) != nil {
		return nil, ntstatus.DuplicateObjectID
	}
	defer s.lineages.withdraw(d)
	f, action, err := s.cfg.FS.Open(vfs.OpenRequest{
		Share: "data", Path: name, Access: vfs.ReadData | vfs.WriteData, ShareMode: share, Disposition: vfs.OpenIf,
		Owner: ss.lineage, User: ss.user,
	})
	if err != nil {
		return nil, err
	}
	share0, _, _ := s.cfg.FS.Connect("data", ss.user)
	t := &tree{share: share0}
	if st := ss.handles.connect(t); st != ntstatus.Success {
		return nil, st
	}
	o := &open{tree: t, file: f, persistent: s.openIDs.Add(1)}
	s.lineages.grant(d, ss, o, action)
	if st := ss.handles.add(o, o.persistent); st != ntstatus.Success {
		return nil, st
	}
	return o, nil
}

// Each orphan has its own time, and the lineage that of the last one.
//
// Source: [OP-42], [OP-56]
func TestOrphansEndAfterTheirTime(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, stop := newBareServer(t, dir)
		defer stop()
		ss, _ := s.session(t, testUser, 1, 0)
		for i := range 3 {
			if _, err := s.open(ss, "f", vfs.ShareAll, byte(i), time.Duration(i+1)*10*time.Second); err != nil {
				t.Fatal(err)
			}
		}
		ss.suspend()
		for i := range 3 {
			time.Sleep(10*time.Second - 1)
			synctest.Wait()
			if n := s.Stats().Orphans; n != 3-i {
				t.Errorf("%d orphans before the time of orphan %d", n, i)
			}
			time.Sleep(1)
			synctest.Wait()
			if st, opens := s.Stats(), s.cfg.FS.Stats().Opens; st.Orphans != 2-i || opens != 2-i || int(st.Expired) > i+1 {
				t.Errorf("%d orphans and %d opens after the time of orphan %d", st.Orphans, opens, i)
			}
		}
		select {
		case <-ss.lineage.Done():
		default:
			t.Error("the lineage goes on")
		}
	})
}

// The lineage of a client with RDMA connections waits a minute without orphans, if the client has used
// durable opens; any other lineage ends at once, and all end with their ticket.
//
// Source: [OP-42]
func TestSuspendedLineageEnds(t *testing.T) {
	dir := t.TempDir()
	for name, x := range map[string]struct {
		durable, closed, retained bool
		ticket                    time.Duration
		want                      time.Duration
	}{
		"nothing":             {},
		"RDMA only":           {retained: true},
		"closed open":         {durable: true, closed: true},
		"closed open, RDMA":   {durable: true, closed: true, retained: true, want: time.Minute},
		"orphan":              {durable: true, want: 10 * time.Second},
		"orphan, RDMA":        {durable: true, retained: true, want: time.Minute},
		"end of the ticket":   {durable: true, retained: true, ticket: -30 * time.Second, want: 30 * time.Second},
		"ticket for a longer": {durable: true, ticket: time.Hour, want: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, stop := newBareServer(t, dir)
				defer stop()
				ss, _ := s.session(t, testUser, 1, 0)
				if x.durable {
					o, err := s.open(ss, "f", vfs.ShareAll, 1, 10*time.Second)
					if err != nil {
						t.Fatal(err)
					}
					if x.closed {
						ss.handles.remove(o)
						o.close()
					}
				}
				if x.retained {
					ss.lineage.Retain()
				}
				if x.ticket != 0 {
					ss.expires(time.Now().Add(x.ticket))
				}
				start := time.Now()
				ss.suspend()
				<-ss.lineage.Done()
				if got := time.Since(start); got != x.want {
					t.Errorf("the lineage ends after %v, want %v", got, x.want)
				}
				synctest.Wait()
			})
		})
	}
}

// modelOpen is an open of modelClient. The zero end is that of an open that a session has.
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
