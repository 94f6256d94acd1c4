package smbserver

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
	"lwio/internal/statefile"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// restarts is a directory whose server dies and is started again.
type restarts struct {
	t           testing.TB
	data, state string
	users       []string
	rights      vfs.Rights
	change      func(*Config)
	wrap        func(vfs.Backend) vfs.Backend // of the next server; nil for none
	copied      func()                        // called by die after the copy of the state; nil for none
	stop        func()
	server      *Server
	log         *statefile.Log
	files       *vfs.FS
}

// newRestarts starts a server with a state. The test ends when the last server is closed.
func newRestarts(t testing.TB) (*restarts, *Server, string) {
	t.Helper()
	r := &restarts{t: t, data: t.TempDir(), state: filepath.Join(t.TempDir(), "state"), users: []string{testUser, "bob"}, rights: vfs.ReadWrite}
	s, addr := r.start()
	t.Cleanup(func() { r.stop() })
	return r, s, addr
}

// start starts a server.
func (r *restarts) start() (*Server, string) {
	r.t.Helper()
	dir, err := posix.OpenDir(r.data)
	if err != nil {
		r.t.Fatal(err)
	}
	backend := vfs.Backend(dir)
	if r.wrap != nil {
		backend = r.wrap(dir)
	}
	r.files, err = vfs.New(vfs.Config{Shares: []vfs.Share{{Name: "data", Backend: backend, Rights: func(string) vfs.Rights { return r.rights }}}})
	if err != nil {
		r.t.Fatal(err)
	}
	if r.log, err = statefile.Open(r.state); err != nil {
		r.t.Fatal(err)
	}
	cfg := Config{FS: r.files, ServerName: "TEST", Lookup: r.lookup, Durable: DurableConfig{State: r.log}}
	if r.change != nil {
		r.change(&cfg)
	}
	if r.server, err = New(cfg); err != nil {
		r.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	done := make(chan error, 1)
	server, files, log := r.server, r.files, r.log
	go func() { done <- server.Serve(l) }()
	r.stop = func() {
		server.Close()
		<-done
		if err := errors.Join(files.Close(), log.Close()); err != nil {
			r.t.Error(err)
		}
		checkNoLineages(r.t, server.lineages)
	}
	return server, l.Addr().String()
}

func (r *restarts) lookup(_, user string) (string, [16]byte, bool) {
	for _, name := range r.users {
		if strings.EqualFold(name, user) {
			return name, smbauth.NTHash(testPassword), true
		}
	}
	return "", [16]byte{}, false
}

// die stops the server. Changes of the state while it stops are lost, as if the process had been killed at
// the beginning of die.
func (r *restarts) die() {
	r.t.Helper()
	at := r.state
	r.state = filepath.Join(r.t.TempDir(), "state")
	if err := os.Mkdir(r.state, 0o700); err != nil {
		r.t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(at, "*"))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(r.state, filepath.Base(name)), b, 0o600)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
	if r.copied != nil {
		r.copied()
	}
	r.stop()
}

// restart is die and start.
func (r *restarts) restart() (*Server, string) {
	r.t.Helper()
	r.die()
	return r.start()
}

// wantState checks the number of records in the state.
func (r *restarts) wantState(groups, records int) {
	r.t.Helper()
	if st := r.log.Stats(); st.Groups != groups || st.Records != records {
		r.t.Errorf("%d opens and %d records in the state, want %d and %d", st.Groups, st.Records, groups, records)
	}
}

// kept returns the records of a durable open.
func (r *restarts) kept(id [16]byte) *keptOpen {
	t := r.server.lineages
	t.mu.Lock()
	defer t.mu.Unlock()
	return &t.opens[le.Uint64(id[:])].kept
}

// sequenced is lockBody with a lock sequence.
func sequenced(b []byte, bucket uint32, number uint32) []byte {
	le.PutUint32(b[4:], bucket<<4|number)
	return b
}

// unnumbered is lockBody without a lock sequence.
func unnumbered(id [16]byte, list ...element) []byte { return sequenced(lockBody(id, list...), 0, 0) }

// A server that was killed gives opens with their share modes, locks, lock sequences and resume keys back
// to their client only.
//
// Source: [MS-SMB2 3.3.5.9.12], [OP-56]
func TestRestartGivesOpensBack(t *testing.T) {
	r, _, addr := newRestarts(t)
	c := mount(t, addr, "data")
	id := c.mustCreate(persistent(create{name: "f", access: 3, share: 3, disposition: 3}, 1, 0))
	c.mustCreate(exclusive("plain"))
	c.want(ntstatus.Success, cmdWrite, writeBody(id, 0, []byte("before")))
	lock := sequenced(lockBody(id, element{0, 10, lockExclusive | lockNow}), 3, 7)
	c.want(ntstatus.Success, cmdLock, lock)
	c.want(ntstatus.Success, cmdLock, unnumbered(id, element{20, 1, lockExclusive | lockNow}))
	c.want(ntstatus.Success, cmdLock, unnumbered(id, element{20, 1, lockUnlock}))
	gone := c.mustCreate(persistent(exclusive("gone"), 2, 0))
	c.want(ntstatus.Success, cmdClose, closeBody(gone, 0))
	key := c.keyOf(id)
	r.wantState(1, 3)

	s, addr := r.restart()
	r.wantState(1, 3)
	if st := s.Stats(); st.Orphans != 1 || st.Suspended != 1 {
		t.Errorf("stats %+v", st)
	}
	other := mount(t, addr, "data")
	other.mustCreate(exclusive("plain"))
	other.want(ntstatus.FileNotAvailable, cmdCreate, create{name: "f", access: 1, share: 7, disposition: 1}.body())
	other.want(ntstatus.ObjectNameNotFound, cmdCreate, reclaiming(gone, 2).body())

	c = c.resume(addr)
	id = c.mustReclaim(id, 1)
	if st := s.Stats(); st.Orphans != 0 || st.Suspended != 0 || st.Reclaimed != 1 {
		t.Errorf("stats %+v", st)
	}
	if string(c.keyOf(id)) != string(key) {
		t.Error("another resume key")
	}
	copy(lock[8:], id[:])
	c.want(ntstatus.Success, cmdLock, lock) // repeated
	if got := r.files.Stats().Locks; got != 1 {
		t.Errorf("%d locks", got)
	}
	theirs := other.mustCreate(create{name: "f", access: 3, share: 7, disposition: 1})
	other.want(ntstatus.LockNotGranted, cmdLock, lockBody(theirs, element{5, 1, lockExclusive | lockNow}))
	other.want(ntstatus.Success, cmdLock, lockBody(theirs, element{20, 1, lockExclusive | lockNow}))
	c.want(ntstatus.Success, cmdLock, unnumbered(id, element{0, 10, lockUnlock}))
	other.want(ntstatus.Success, cmdLock, lockBody(theirs, element{5, 1, lockExclusive | lockNow}))
	c.want(ntstatus.Success, cmdClose, closeBody(id, 0))
	r.wantState(0, 0)
}

// A client may use a number again after its other requests have failed, also if the server dies in between, and over another
// protocol.
//
// Source: [MS-SMB2 3.3.5.14], [OP-116]
func TestRestartForgetsTheSequenceBeforeAFailure(t *testing.T) {
	const number = 7
	for name, fails := range map[string]func(r *restarts, c *raw, id [16]byte){
		"lock": func(_ *restarts, c *raw, id [16]byte) {
			c.want(ntstatus.LockNotGranted, cmdLock, sequenced(lockBody(id, element{0, 1, lockExclusive | lockNow}), 3, number+1))
		},
		"unlock": func(_ *restarts, c *raw, id [16]byte) {
			c.want(ntstatus.RangeNotLocked, cmdLock, sequenced(lockBody(id, element{50, 1, lockUnlock}), 3, number+1))
		},
		"lock over another protocol": func(r *restarts, _ *raw, id [16]byte) {
			err := r.fileOf(id).LockOnce(vfs.Lock{Range: vfs.Range{Len: 1}, Exclusive: true}, 3<<4|(number+1))
			if !errors.Is(err, ntstatus.LockNotGranted) {
				t.Error(err)
			}
		},
		"unlock over another protocol": func(r *restarts, _ *raw, id [16]byte) {
			if err := r.fileOf(id).UnlockOnce(vfs.Range{Off: 50, Len: 1}, 3<<4|(number+1)); !errors.Is(err, ntstatus.RangeNotLocked) {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, _, addr := newRestarts(t)
			c, other := mount(t, addr, "data"), mount(t, addr, "data")
			id := c.mustCreate(persistent(create{name: "f", access: 3, share: 3, disposition: 3}, 1, 0))
			theirs := other.mustCreate(persistent(create{name: "f", access: 3, share: 3, disposition: 1}, 2, 0))
			other.want(ntstatus.Success, cmdLock, unnumbered(theirs, element{0, 1, lockExclusive | lockNow}))
			c.want(ntstatus.Success, cmdLock, sequenced(lockBody(id, element{10, 1, lockExclusive | lockNow}), 3, number))
			fails(r, c, id)
			_, addr = r.restart()
			c, other = c.resume(addr), other.resume(addr)
			id, _ = c.mustReclaim(id, 1), other.mustReclaim(theirs, 2)
			c.want(ntstatus.LockNotGranted, cmdLock, sequenced(lockBody(id, element{0, 1, lockExclusive | lockNow}), 3, number))
		})
	}
}

// A second death before and after the reclaim loses nothing either, and a planned stop keeps the opens.
func TestRestartsFollowEachOther(t *testing.T) {
	r, _, addr := newRestarts(t)
	c := mount(t, addr, "data")
	id := c.mustCreate(persistent(exclusive("f"), 1, 0))
	c.want(ntstatus.Success, cmdLock, unnumbered(id, element{0, 10, lockExclusive | lockNow}))
	r.restart()
	_, addr = r.restart()
	c = c.resume(addr)
	id = c.mustReclaim(id, 1)
	c.want(ntstatus.Success, cmdLock, unnumbered(id, element{10, 10, lockExclusive | lockNow}))
	r.restart()
	r.stop()
	s, addr := r.start()
	if n := r.files.Stats().Locks; n != 2 {
		t.Errorf("%d locks", n)
	}
	c = c.resume(addr)
	c.mustReclaim(id, 1)
	wantOrphans(t, s, 0)
	r.stop() // with the open in use
	_, addr = r.start()
	c = c.resume(addr)
	c.mustReclaim(id, 1)
	c.want(ntstatus.Success, cmdLogoff, []byte{4, 0, 0, 0})
	r.wantState(0, 0)
}

// An open is not restored if its file is gone or another one, or if its user is. Its client learns the
// reason, and nothing is left in the state.
func TestStaleOpenIsNotRestored(t *testing.T) {
	for name, x := range map[string]struct {
		change func(t *testing.T, r *restarts)
		want   ntstatus.Status
	}{
		"removed": {func(t *testing.T, r *restarts) {
			if err := os.Remove(filepath.Join(r.data, "f")); err != nil {
				t.Fatal(err)
			}
		}, ntstatus.FileDeleted},
		"replaced": {func(t *testing.T, r *restarts) {
			if err := errors.Join(os.WriteFile(filepath.Join(r.data, "g"), nil, 0o644), os.Rename(filepath.Join(r.data, "g"), filepath.Join(r.data, "f"))); err != nil {
				t.Fatal(err)
			}
		}, ntstatus.FileInvalid},
		"removed and made again": {func(t *testing.T, r *restarts) { // perhaps with the same inode number
			if err := errors.Join(os.Remove(filepath.Join(r.data, "f")), os.WriteFile(filepath.Join(r.data, "f"), nil, 0o644)); err != nil {
				t.Fatal(err)
			}
		}, ntstatus.FileInvalid},
		"a directory": {func(t *testing.T, r *restarts) {
			if err := errors.Join(os.Remove(filepath.Join(r.data, "f")), os.Mkdir(filepath.Join(r.data, "f"), 0o755)); err != nil {
				t.Fatal(err)
			}
		}, ntstatus.FileInvalid},
		"rights":         {func(_ *testing.T, r *restarts) { r.rights = vfs.ReadOnly }, ntstatus.AccessDenied},
		"no durable one": {func(_ *testing.T, r *restarts) { r.change = func(c *Config) { c.Durable.Timeout = -1 } }, ntstatus.ObjectNameNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			r, _, addr := newRestarts(t)
			c := mount(t, addr, "data")
			id := c.mustCreate(persistent(exclusive("f"), 1, 0))
			r.die()
			x.change(t, r)
			s, addr := r.start()
			c = c.resume(addr)
			c.want(x.want, cmdCreate, reclaiming(id, 1).body())
			wantOrphans(t, s, 0)
			r.wantState(0, 0)
			if n := r.files.Stats().Opens; n != 0 {
				t.Errorf("%d opens", n)
			}
		})
	}
}

// The reason for which an open is not restored outlives a second death of the server, though the file is back by then, until
// its client has it, the time of the open is over or its user is removed. Its locks do not.
func TestStaleOpenKeepsItsReason(t *testing.T) {
	for name, x := range map[string]struct {
		timeout uint32
		ends    func(r *restarts)
	}{
		"restart": {},
		"time":    {timeout: 1},
		"user": {ends: func(r *restarts) {
			r.users = []string{"bob"}
			r.server.Reauthorize()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r, _, addr := newRestarts(t)
			c := mount(t, addr, "data")
			id := c.mustCreate(persistent(exclusive("f"), 1, x.timeout))
			c.want(ntstatus.Success, cmdLock, sequenced(lockBody(id, element{0, 10, lockExclusive | lockNow}), 3, 7))
			at, away := filepath.Join(r.data, "f"), filepath.Join(r.data, "g")
			r.die()
			if err := os.Rename(at, away); err != nil {
				t.Fatal(err)
			}
			r.start()
			if x.timeout == 0 {
				r.wantState(1, 2)
			}
			if x.ends != nil {
				x.ends(r)
			}
			if x.timeout != 0 || x.ends != nil {
				r.awaitEmptyState()
				return
			}
			r.die()
			if err := os.Rename(away, at); err != nil {
				t.Fatal(err)
			}
			r.start()
			r.stop() // a planned stop keeps the reason too
			s, addr := r.start()
			r.wantState(1, 2)
			if st := s.Stats(); st.Restored != 0 || st.NotRestored != 1 || st.Orphans != 0 {
				t.Errorf("stats %+v", st)
			}
			c = c.resume(addr)
			c.want(ntstatus.FileDeleted, cmdCreate, reclaiming(id, 1).body())
			r.wantState(0, 0)
			c.want(ntstatus.FileDeleted, cmdCreate, reclaiming(id, 1).body()) // the client may have lost the first response
		})
	}
}

// awaitEmptyState waits until the state has no records.
func (r *restarts) awaitEmptyState() {
	r.t.Helper()
	for start := time.Now(); r.log.Stats().Records != 0; time.Sleep(time.Millisecond) {
		if time.Since(start) > ioTimeout {
			r.t.Fatalf("%d records in the state", r.log.Stats().Records)
		}
	}
}

// The opens of a user that was removed while the server was down are gone.
func TestRemovedUserLeavesNoState(t *testing.T) {
	r, _, addr := newRestarts(t)
	mount(t, addr, "data").mustCreate(persistent(exclusive("f"), 1, 0))
	r.die()
	r.users = []string{"bob"}
	_, addr = r.start()
	r.wantState(0, 0)
	as(t, addr, "bob").mustCreate(exclusive("f"))
}

// A renamed file is found under its new name, also if the server dies during the rename.
func TestRenamedFileIsRestored(t *testing.T) {
	r, _, addr := newRestarts(t)
	c := mount(t, addr, "data")
	o := create{name: "f", access: 0x10003, share: 7, disposition: 3}
	id, second := c.mustCreate(persistent(o, 1, 0)), c.mustCreate(persistent(o, 2, 0))
	c.want(ntstatus.Success, cmdSetInfo, setBody(id, 1, 10, renameInfo("g", false)))
	_, addr = r.restart()
	c = c.resume(addr)
	id, second = c.mustReclaim(id, 1), c.mustReclaim(second, 2)

	for _, d := range []uint64{le.Uint64(id[:]), le.Uint64(second[:])} { // as when a rename begins
		if err := r.server.lineages.byFileID(d).kept.change(func(r *openRecord) { r.other = "sub/h" }); err != nil {
			t.Fatal(err)
		}
	}
	_, addr = r.restart() // before the file system has renamed the file
	c = c.resume(addr)
	id = c.mustReclaim(id, 1)
	if err := r.server.lineages.byFileID(le.Uint64(id[:])).kept.change(func(r *openRecord) { r.other = "sub/h" }); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(r.data, "sub"), 0o755), os.Rename(filepath.Join(r.data, "g"), filepath.Join(r.data, "sub", "h"))); err != nil {
		t.Fatal(err)
	}
	_, addr = r.restart() // after that
	c = c.resume(addr)
	c.mustReclaim(id, 1)
	c.mustReclaim(second, 2)
}

// The delete of a file that is pending outlives a restart, and so does its end.
func TestPendingDeleteIsRestored(t *testing.T) {
	for _, x := range []struct {
		name    string
		options uint32
		set     []byte // the dispositions that are set
		deleted bool
	}{
		{name: "option", options: 0x1000, deleted: true},
		{name: "disposition", set: []byte{1}, deleted: true},
		{name: "cancelled", set: []byte{1, 0}},
		{name: "none"},
	} {
		t.Run(x.name, func(t *testing.T) {
			r, _, addr := newRestarts(t)
			c := mount(t, addr, "data")
			id := c.mustCreate(persistent(create{name: "f", access: 0x10003, disposition: 3, options: x.options}, 1, 0))
			for _, on := range x.set {
				c.want(ntstatus.Success, cmdSetInfo, setBody(id, 1, 13, []byte{on}))
			}
			r.restart()
			r.stop() // a planned stop deletes nothing
			_, addr = r.start()
			if _, err := os.Stat(filepath.Join(r.data, "f")); err != nil {
				t.Fatal(err)
			}
			c = c.resume(addr)
			id = c.mustReclaim(id, 1)
			c.want(ntstatus.Success, cmdClose, closeBody(id, 0))
			if _, err := os.Stat(filepath.Join(r.data, "f")); errors.Is(err, fs.ErrNotExist) != x.deleted {
				t.Errorf("after the close: %v", err)
			}
		})
	}
}

// The delete of a file that an open made pending which is not durable outlives a restart, for an open that has no right to
// delete.
func TestPendingDeleteOfAnotherOpenIsRestored(t *testing.T) {
	for name, options := range map[string]uint32{"option": 0x1000, "disposition": 0} {
		t.Run(name, func(t *testing.T) {
			r, _, addr := newRestarts(t)
			c := mount(t, addr, "data")
			id := c.mustCreate(persistent(create{name: "f", access: 3, share: 7, disposition: 3}, 1, 0))
			other := c.mustCreate(create{name: "f", access: 0x10000, share: 7, disposition: 1, options: options})
			if options == 0 {
				c.want(ntstatus.Success, cmdSetInfo, setBody(other, 1, 13, []byte{1}))
			}
			c.want(ntstatus.Success, cmdClose, closeBody(other, 0))
			_, addr = r.restart()
			c = c.resume(addr)
			id = c.mustReclaim(id, 1)
			c.want(ntstatus.DeletePending, cmdCreate, exclusive("f").body())
			c.want(ntstatus.Success, cmdClose, closeBody(id, 0))
			if _, err := os.Stat(filepath.Join(r.data, "f")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after the close: %v", err)
			}
		})
	}
}

// The grace period of a file ends when all clients of its opens have come back.
func TestGraceEndsWhenAllHaveCome(t *testing.T) {
	r, _, addr := newRestarts(t)
	shared := create{name: "f", access: 3, share: 7, disposition: 3}
	a, b := mount(t, addr, "data"), as(t, addr, "bob")
	ofA, ofB := a.mustCreate(persistent(shared, 1, 0)), b.mustCreate(persistent(shared, 1, 50))
	_, addr = r.restart()
	other := mount(t, addr, "data")
	opening := create{name: "f", access: 1, share: 7, disposition: 1}
	other.want(ntstatus.FileNotAvailable, cmdCreate, opening.body())
	a = a.resume(addr)
	a.mustReclaim(ofA, 1)
	wantOrphans(t, r.server, 0)                                                         // the open of bob is closed after its time
	for start := time.Now(); r.files.Stats().Opens != 1; time.Sleep(time.Millisecond) { // it is no orphan a moment before that
		if time.Since(start) > ioTimeout {
			t.Fatalf("%d opens", r.files.Stats().Opens)
		}
	}
	other.mustCreate(opening)
	r.wantState(1, 1)
	as(t, addr, "bob").want(ntstatus.ObjectNameNotFound, cmdCreate, reclaiming(ofB, 1).body())
}

// While the state cannot be written, an open is made that is not durable, no lock of a durable one is taken or released,
// and everything else goes on.
func TestFailingStateRefusesDurableChanges(t *testing.T) {
	r, s, addr := newRestarts(t)
	c := mount(t, addr, "data")
	id := c.mustCreate(persistent(exclusive("f"), 1, 0))
	c.want(ntstatus.Success, cmdLock, unnumbered(id, element{0, 10, lockExclusive | lockNow}))
	if err := r.log.Close(); err != nil { // as if each write failed
		t.Fatal(err)
	}
	r0 := c.call(cmdCreate, persistent(exclusive("g"), 2, 0).body())
	if r0.status != ntstatus.Success || le.Uint32(r0.body[84:]) != 0 || !s.Stats().StateFailing {
		t.Errorf("an open while the state fails: %v, %d bytes of contexts, %+v", r0.status, le.Uint32(r0.body[84:]), s.Stats())
	}
	plain := [16]byte(r0.body[64:80])
	c.want(ntstatus.FileClosed, cmdLock, unnumbered(id, element{20, 1, lockExclusive | lockNow}))
	c.want(ntstatus.FileClosed, cmdLock, unnumbered(id, element{0, 10, lockUnlock}))
	if st := r.files.Stats(); st.Locks != 1 || st.Opens != 2 || len(s.lineages.opens) != 1 {
		t.Errorf("%d locks and %d opens, of them %d durable", st.Locks, st.Opens, len(s.lineages.opens))
	}
	c.want(ntstatus.Success, cmdWrite, writeBody(plain, 0, []byte("data")))
	c.want(ntstatus.Success, cmdLock, unnumbered(plain, element{0, 1, lockExclusive | lockNow}))
	c.want(ntstatus.Success, cmdClose, closeBody(id, 0))
	if n := len(s.lineages.opens); n != 0 {
		t.Errorf("%d durable opens", n)
	}
}

// A close of an open with delete on close deletes the file with the last other open, also after a restart, and whether the
// server dies before or after it removes the record of the closed open. No client gets the closed open back.
func TestDeleteOnCloseOfAnotherOpenIsRestored(t *testing.T) {
	for name, removed := range map[string]bool{"record removed": true, "record there": false} {
		t.Run(name, func(t *testing.T) {
			r, _, addr := newRestarts(t)
			c := mount(t, addr, "data")
			id := c.mustCreate(persistent(create{name: "f", access: 0x10003, share: 7, disposition: 3}, 1, 0))
			first := c.mustCreate(persistent(create{name: "f", access: 0x10003, share: 7, disposition: 1, options: 0x1000}, 2, 0))
			record := r.kept(first).record // no request changes it meanwhile
			c.want(ntstatus.Success, cmdClose, closeBody(first, 0))
			for start := time.Now(); r.log.Stats().Groups != 1; time.Sleep(time.Millisecond) {
				if time.Since(start) > ioTimeout {
					t.Fatal("the record of the closed open stays")
				}
			}
			if !removed {
				record.closed = true
				var b changes
				b.putRecord(le.Uint64(first[:]), &record)
				if err := r.log.Apply(&b.batch); err != nil {
					t.Fatal(err)
				}
			}
			_, addr = r.restart()
			r.wantState(1, 1)
			c = c.resume(addr)
			c.want(ntstatus.ObjectNameNotFound, cmdCreate, reclaiming(first, 2).body())
			id = c.mustReclaim(id, 1)
			c.want(ntstatus.Success, cmdClose, closeBody(id, 0))
			if _, err := os.Stat(filepath.Join(r.data, "f")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after the close: %v", err)
			}
		})
	}
}

// A file whose last open was being closed with a pending delete is deleted by the next process.
func TestDeleteOfClosedOpenIsDoneAgain(t *testing.T) {
	r, _, addr := newRestarts(t)
	c := mount(t, addr, "data")
	id := c.mustCreate(persistent(create{name: "f", access: 0x10003, share: 7, disposition: 3}, 1, 0))
	if err := r.kept(id).change(func(rec *openRecord) { rec.deleting, rec.closed = true, true }); err != nil {
		t.Fatal(err)
	}
	r.restart()
	r.wantState(0, 0)
	if _, err := os.Stat(filepath.Join(r.data, "f")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the restart: %v", err)
	}
}

// A CREATE that the client repeats after a restart has the open of the first one, with its action.
//
// Source: [MS-SMB2 3.3.5.9.10]
func TestRepeatedCreateAfterRestart(t *testing.T) {
	r, _, addr := newRestarts(t)
	c := mount(t, addr, "data")
	o := persistent(create{name: "f", access: 3, disposition: 2}, 1, 0) // fails if there is a file
	id := c.mustCreate(o)
	_, addr = r.restart()
	c = c.resume(addr)
	c.want(ntstatus.DuplicateObjectID, cmdCreate, o.body())
	c.send(replay(c.message(cmdCreate, o.body())))
	again := c.recv()[0]
	if again.status != ntstatus.Success || le.Uint64(again.body[64:]) != le.Uint64(id[:]) || le.Uint32(again.body[4:]) != 2 {
		t.Errorf("%v, FileId %x, action %d", again.status, again.body[64:80], le.Uint32(again.body[4:]))
	}
}

// The cost of opens and locks: of an open that ends with its connection, of a durable one, and of a durable
// one that is kept in a state.
func BenchmarkDurableOpen(b *testing.B) {
	for name, x := range map[string]struct{ durable, state bool }{"plain": {}, "plain/state": {state: true}, "durable": {durable: true}, "durable/state": {durable: true, state: true}} {
		b.Run(name, func(b *testing.B) {
			c := benchClient(b, x.state)
			o := exclusive("f")
			for i := 0; b.Loop(); i++ {
				if x.durable {
					o = persistent(exclusive("f"), i%60000, 0)
				}
				c.want(ntstatus.Success, cmdClose, closeBody(c.mustCreate(o), 0))
			}
		})
	}
}

func BenchmarkDurableLock(b *testing.B) {
	for name, state := range map[string]bool{"durable": false, "durable/state": true} {
		b.Run(name, func(b *testing.B) {
			c := benchClient(b, state)
			id := c.mustCreate(persistent(exclusive("f"), 1, 0))
			for i := uint32(0); b.Loop(); i++ {
				c.want(ntstatus.Success, cmdLock, sequenced(lockBody(id, element{0, 1, lockExclusive | lockNow}), 1, i%16))
				c.want(ntstatus.Success, cmdLock, sequenced(lockBody(id, element{0, 1, lockUnlock}), 2, i%16))
			}
		})
	}
}

// benchClient returns a client of a server.
func benchClient(b *testing.B, state bool) *raw {
	b.Helper()
	r, _, addr := newRestarts(b)
	if !state {
		r.stop()
		r.change = func(c *Config) { c.Durable.State = nil }
		_, addr = r.start()
	}
	c := mount(b, addr, "data")
	for range 8 {
		c.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	}
	return c
}

// heldCreate is a backend on which the creation of a file waits.
type heldCreate struct {
	vfs.Backend
	made bool          // the file is there while the creation waits
	came chan struct{} // receives when a creation waits
	over chan struct{} // closed to end the wait
}

func (b heldCreate) Create(path string, how vfs.HandleMode, readOnly bool) (h vfs.Handle, err error) {
	if b.made {
		h, err = b.Backend.Create(path, how, readOnly)
	}
	b.came <- struct{}{}
	<-b.over
	if !b.made {
		err = errors.New("the process has died")
	}
	return h, err
}

// A server that dies while it makes a file for a durable open gives the file to the CREATE when it is sent
// again, as a new file, and to no other client. A file that others have made is not taken for it.
//
// Source: [MS-SMB2 3.3.5.9.10]
func TestDeathDuringCreation(t *testing.T) {
	for name, x := range map[string]struct {
		made    bool
		foreign string // the content of a file that others have made
		want    ntstatus.Status
	}{
		"before the file":    {false, "", ntstatus.Success},
		"after the file":     {true, "", ntstatus.Success},
		"the file of others": {false, "theirs", ntstatus.ObjectNameCollision},
	} {
		t.Run(name, func(t *testing.T) {
			r, _, _ := newRestarts(t)
			r.stop()
			held := heldCreate{made: x.made, came: make(chan struct{}), over: make(chan struct{})}
			r.wrap = func(b vfs.Backend) vfs.Backend {
				held.Backend = b
				return held
			}
			_, addr := r.start()
			c := mount(t, addr, "data")
			o := persistent(create{name: "f", access: 3, share: 7, disposition: 2}, 1, 0)
			c.send(c.message(cmdCreate, o.body()))
			<-held.came
			r.copied = func() { close(held.over) }
			r.die()
			r.wrap, r.copied = nil, nil
			if x.foreign != "" {
				if err := os.WriteFile(filepath.Join(r.data, "f"), []byte(x.foreign), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			s, addr := r.start()
			restored := 0
			if x.made {
				restored = 1
				mount(t, addr, "data").want(ntstatus.FileNotAvailable, cmdCreate, create{name: "f", access: 3, share: 7, disposition: 1}.body())
			}
			wantOrphans(t, s, restored)
			r.wantState(restored, restored)
			c = c.resume(addr)
			c.send(replay(c.message(cmdCreate, o.body())))
			got := c.recv()[0]
			if got.status != x.want || got.status == ntstatus.Success && le.Uint32(got.body[4:]) != 2 {
				t.Fatalf("the repeated CREATE: %v, want %v, as a new file", got.status, x.want)
			}
			wantOrphans(t, s, 0)
			if x.want != ntstatus.Success {
				r.wantState(0, 0)
				return
			}
			r.wantState(1, 1)
			_, addr = r.restart()
			c = c.resume(addr)
			c.want(ntstatus.Success, cmdClose, closeBody(c.mustReclaim([16]byte(got.body[64:80]), 1), 0))
			r.wantState(0, 0)
		})
	}
}

// A CREATE that fails, or finds a file, leaves no record of a file that is being made.
func TestFailedCreationLeavesNoState(t *testing.T) {
	r, _, addr := newRestarts(t)
	c := mount(t, addr, "data")
	c.want(ntstatus.ObjectPathNotFound, cmdCreate, persistent(create{name: `none\f`, access: 3, share: 7, disposition: 2}, 1, 0).body())
	r.wantState(0, 0)
	o := create{name: "f", access: 3, share: 7, disposition: 3}
	first := c.mustCreate(persistent(o, 2, 0))
	c.mustCreate(persistent(o, 3, 0))
	r.wantState(2, 2)
	c.want(ntstatus.ObjectNameCollision, cmdCreate, persistent(create{name: "f", access: 3, share: 7, disposition: 2}, 4, 0).body())
	c.want(ntstatus.Success, cmdClose, closeBody(first, 0))
	r.wantState(1, 1)
}
