package server

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/internal/wire"
	"lwio/rdma"
)

// dead copies the state of a server as the death of its process would leave it now.
func (s *survivor) dead(state string) (copied string) {
	t := s.v.t
	t.Helper()
	copied = t.TempDir()
	if err := os.Chmod(copied, 0o700); err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(state)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range names {
		b, err := os.ReadFile(filepath.Join(state, e.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(copied, e.Name()), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return copied
}

// next starts the next server with a state, and takes the file over. previous is the session of RDMA whose writes the client
// sends again, and base the number of its next message there.
func (s *survivor) next(state string, previous [8]byte, base uint16) (srv *Server, c *rawClient, fid uint16, known bool) {
	t := s.v.t.(*testing.T)
	t.Helper()
	srv, addr, _ := newServer(t, context.Background(), Config{StateDir: state, Lookup: Users{"alice": "secret"}.Lookup, Providers: []rdma.Provider{providers[s.v.on]()}}, s.dir)
	<-srv.Ready()
	s.smb = dialSMB(t, addr, 1, s.smb.session)
	s.smb.connect("share")
	s.file = s.smb.reclaim(s.file, 1)
	n := s.negotiate([16]byte{1})
	c = s.v.connect(n)
	c.auth(n, authOptions{mutate: func(p *wire.AuthParams) { p.PreviousSessionID, p.BaseSequence = &previous, base }})
	id := c.params.PreviousSessionID
	return srv, c, s.register(c), id != nil && *id == previous
}

func (s *survivor) register(c *rawClient) uint16 {
	s.v.t.Helper()
	params := wire.FIDParams{ResumeKey: s.key, SessionID: c.sessionID}
	return uint16(c.call(wire.NewRegister(), params.AppendTo(nil)).Information)
}

// content demands the content of the file.
func (s *survivor) content(want string) {
	s.v.t.Helper()
	if got, err := os.ReadFile(filepath.Join(s.dir, "f")); string(got) != want || err != nil {
		s.v.t.Errorf("the file has %q, %v; want %q", got, err, want)
	}
}

// logs returns the names of the logs of writes in a state.
func logs(t *testing.T, state string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(state, "writes.*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// A write over RDMA whose answer the client did not get from a server that is stopped or killed is done once: the next
// server has its result, and does a write that did not arrive. So does the server after the next one.
//
// Source: [OP-56], [OP-112]
func TestWritesOnceAcrossStop(t *testing.T) {
	onEach(t, func(t *testing.T, on string) {
		for _, killed := range []bool{false, true} {
			testWritesOnceAcrossStop(t, on, killed)
		}
	})
}

func testWritesOnceAcrossStop(t *testing.T, on string, killed bool) {
	state := filepath.Join(t.TempDir(), "state")
	s := newSurvivor(t, on, Config{StateDir: state})
	done := s.rdma.sequence
	s.rdma.want(ntstatus.Success, 2, writeHeader(s.fid, 0, 2), []byte("AA"))
	lost := s.rdma.sequence
	end := func(srv *Server, c *rawClient) {
		t.Helper()
		if killed {
			state = s.dead(state)
		}
		if err := srv.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.wantCut()
	}
	end(s.s, s.rdma)
	if err := os.WriteFile(filepath.Join(s.dir, "f"), []byte("BB"), 0o600); err != nil { // by another program
		t.Fatal(err)
	}
	// The client does not use the connection to the second server.
	second, c, _, known := s.next(state, s.rdma.sessionID, lost)
	if !known {
		t.Fatal("the second server does not have the results")
	}
	used := c.sessionID
	end(second, c)
	third, c, fid, known := s.next(state, used, c.sequence)
	if !known {
		t.Fatal("the third server does not have the results")
	}
	for _, x := range []struct {
		sequence uint16
		at       uint64
	}{{done, 0}, {lost, 2}} {
		if r := c.again(x.sequence, writeHeader(fid, x.at, 2), []byte("CC")); r.Status != 0 || r.Information != 2 {
			t.Errorf("write %d again: %+v", x.sequence, r)
		}
	}
	s.content("BBCC")
	s.smb.want(ntstatus.Success, smbwire.CommandLogoff, smbwire.Empty{}.AppendTo(nil))
	c.wantCut()
	eventually(t, "no log is left", func() bool { return len(logs(t, state)) == 0 })
	if err := third.Close(); err != nil {
		t.Error(err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil || strings.Contains(string(maps), "writes.") {
		t.Errorf("a log is still mapped, %v", err)
	}
}

// If the client does not get the answers to several AUTHs, it names the connection before them again, at the next
// server too.
//
// Source: [OP-112]
func TestResultsHaveNameOfReplacedConnection(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	s := newSurvivor(t, "iwarp", Config{StateDir: state})
	done := s.rdma.sequence
	s.rdma.want(ntstatus.Success, 2, writeHeader(s.fid, 0, 2), []byte("AA"))
	first, base := s.rdma.sessionID, s.rdma.sequence
	for range 3 {
		n := s.negotiate([16]byte{1})
		c := s.v.connect(n)
		c.auth(n, authOptions{mutate: func(p *wire.AuthParams) { p.PreviousSessionID, p.BaseSequence = &first, base }})
		if id := c.params.PreviousSessionID; id == nil || *id != first {
			t.Fatal("the results are not known by the name of the first connection")
		}
	}
	state = s.dead(state)
	if err := s.s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(logs(t, state)); n != 1 {
		t.Errorf("%d logs of one connection", n)
	}
	_, c, fid, known := s.next(state, first, base)
	if !known {
		t.Fatal("the results are missing")
	}
	if r := c.again(done, writeHeader(fid, 0, 2), []byte("CC")); r.Status != 0 || r.Information != 2 {
		t.Errorf("%+v", r)
	}
	s.content("AA")
}

// Many messages after the last write, the next process still tells writes of one round of the Sequence from those of another.
//
// Source: [OP-112]
func TestNumberOfNextMessageIsKept(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	s := newSurvivor(t, "shm", Config{StateDir: state})
	old := s.rdma.sequence
	s.rdma.want(ntstatus.Success, 2, writeHeader(s.fid, 0, 2), []byte("AA"))
	for s.rdma.sequence != old {
		s.rdma.want(ntstatus.Success, 1, s.rdma.readHeader(s.fid, 0, 1, 0), nil)
	}
	state = s.dead(state)
	if err := s.s.Close(); err != nil {
		t.Fatal(err)
	}
	_, c, fid, known := s.next(state, s.rdma.sessionID, old+1)
	if !known {
		t.Fatal("the results are missing")
	}
	if r := c.again(old, writeHeader(fid, 0, 2), []byte("CC")); r.Status != 0 || r.Information != 2 { // did not arrive
		t.Errorf("%+v", r)
	}
	s.content("CC")
}

// A write that was in progress when the server died is done again, unless another change of the same bytes has begun since it
// began: then its outcome is unknown, and the other change stays.
//
// Source: [OP-112]
func TestWriteInDoubtAfterDeath(t *testing.T) { onEach(t, testWriteInDoubtAfterDeath) }

func testWriteInDoubtAfterDeath(t *testing.T, on string) {
	write := func(at uint64, data string) func(s *survivor) {
		return func(s *survivor) {
			q := smbwire.WriteRequest{Offset: at, FileID: s.file, Data: []byte(data)}
			s.smb.send(smbwire.CommandWrite, q.AppendTo(nil))
		}
	}
	for name, x := range map[string]struct {
		before, after func(s *survivor) // a change before the death, or after it
		status        ntstatus.Status
		content       string
	}{
		"no other change":         {status: ntstatus.Success, content: "00BB0000"},
		"same bytes":              {after: write(3, "xx"), status: ntstatus.RequestOutOfSequence, content: "00Axx000"},
		"other bytes":             {after: write(4, "xx"), status: ntstatus.Success, content: "00BBxx00"},
		"same bytes before":       {before: write(1, "xx"), status: ntstatus.RequestOutOfSequence, content: "0xxA0000"},
		"other bytes before":      {before: write(0, "xx"), status: ntstatus.Success, content: "xxBB0000"},
		"same bytes, both before": {before: write(2, "xx"), after: write(2, "yy"), status: ntstatus.RequestOutOfSequence, content: "00yy0000"},
	} {
		t.Run(name, func(t *testing.T) {
			state := filepath.Join(t.TempDir(), "state")
			g := newGate(t)
			g.make("f", []byte("00000000"))
			s := newSurvivorOf(t, on, Config{StateDir: state}, g.dir, g)
			sequence := s.rdma.sequence
			g.shut()
			s.rdma.send(writeHeader(s.fid, 2, 2), []byte("AA"))
			eventually(t, "the write is in progress", func() bool { return g.waiting() == 1 })
			if x.before != nil {
				x.before(s)
				eventually(t, "the other change is in progress", func() bool { return g.waiting() == 2 })
			}
			state = s.dead(state)
			base, previous := s.rdma.sequence, s.rdma.sessionID
			g.open()
			if err := s.s.Close(); err != nil {
				t.Fatal(err)
			}
			if x.before != nil { // its effect is the last one
				_ = os.WriteFile(filepath.Join(s.dir, "f"), []byte(strings.NewReplacer("BB", "AA", "yy", "xx").Replace(x.content)), 0o600)
			}
			_, c, fid, known := s.next(state, previous, base)
			if !known {
				t.Fatal("the results are missing")
			}
			if x.after != nil {
				x.after(s)
				if h, _ := s.smb.answer(); h.Status != ntstatus.Success {
					t.Fatal(h.Status)
				}
			}
			for range 2 { // the second time by the result
				r := c.again(sequence, writeHeader(fid, 2, 2), []byte("BB"))
				if r.Status != uint32(x.status) {
					t.Errorf("%v, want %v", ntstatus.Status(r.Status), x.status)
				}
			}
			s.content(x.content)
		})
	}
}

// A log of writes that cannot be made shows in Stats until one can be made.
//
// Source: [OP-112]
func TestFailingWriteLogShowsInStats(t *testing.T) {
	onEach(t, func(t *testing.T, on string) {
		state := filepath.Join(t.TempDir(), "state")
		s := newSurvivor(t, on, Config{StateDir: state})
		if s.s.Stats().WriteLogFailing {
			t.Error("the first log failed")
		}
		for i, failing := range []bool{true, false} {
			from, to := state, state+"-away"
			if !failing {
				from, to = to, from
			}
			if err := os.Rename(from, to); err != nil {
				t.Fatal(err)
			}
			s.attach(s.negotiate([16]byte{byte(2 + i)}))
			eventually(t, "the log counts", func() bool { return s.s.Stats().WriteLogFailing == failing })
		}
	})
}

// A server without durable opens removes the logs of writes of an earlier process.
func TestWriteLogsEndWithDurableOpens(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"writes.0102030405060708", "writes.0102030405060708.new"} {
		if err := os.WriteFile(filepath.Join(state, name), []byte("log"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	newServer(t, t.Context(), Config{StateDir: state, DurableTimeout: -1, Lookup: Users{}.Lookup}, t.TempDir())
	if left := logs(t, state); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}
