package smbserver

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

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
	d := &durable{key: durableKey{client: ss.lineage.client, guid: [16]byte{guid}, user: ss.user}, timeout: timeout, persistent: true, lasting: true}
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
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if st, opens := s.Stats(), s.cfg.FS.Stats().Opens; st.Orphans != 2-i || opens != 2-i || int(st.Expired) != i+1 {
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
