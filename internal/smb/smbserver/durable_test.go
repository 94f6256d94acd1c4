package smbserver

import (
	"slices"
	"testing"
	"time"

	"lwio/internal/ntstatus"
)

// namedContext is a create context, as the raw client writes it.
type namedContext struct {
	name string
	data []byte
}

// contextList encodes create contexts.
func contextList(list ...namedContext) (b []byte) {
	for i, c := range list {
		one := make([]byte, 16)
		le.PutUint16(one[4:], 16)
		le.PutUint16(one[6:], uint16(len(c.name)))
		one = append(one, c.name...)
		for len(one)%8 != 0 {
			one = append(one, 0)
		}
		le.PutUint16(one[10:], uint16(len(one)))
		le.PutUint32(one[12:], uint32(len(c.data)))
		one = append(one, c.data...)
		for i < len(list)-1 && len(one)%8 != 0 {
			one = append(one, 0)
		}
		if i < len(list)-1 {
			le.PutUint32(one, uint32(len(one)))
		}
		b = append(b, one...)
	}
	return b
}

// guidBytes returns the GUID of a number.
func guidBytes(n int) []byte { return append(le.AppendUint16(nil, uint16(n)), make([]byte, 14)...) }

// durableRequest is the context DH2Q.
func durableRequest(guid int, timeout, flags uint32) namedContext {
	b := le.AppendUint32(nil, timeout)
	b = le.AppendUint32(b, flags)
	b = append(b, make([]byte, 8)...)
	return namedContext{"DH2Q", append(b, guidBytes(guid)...)}
}

// durableReconnect is the context DH2C.
func durableReconnect(id [16]byte, guid int) namedContext {
	b := append(slices.Clone(id[:]), guidBytes(guid)...)
	return namedContext{"DH2C", le.AppendUint32(b, 2)}
}

// persistent asks for a persistent handle.
func persistent(o create, guid int, timeout uint32) create {
	o.contexts = contextList(durableRequest(guid, timeout, 2))
	return o
}

// reclaiming takes a persistent handle over.
func reclaiming(id [16]byte, guid int) create {
	return create{access: 3, contexts: contextList(durableReconnect(id, guid))}
}

// replay marks a message as a repeated one.
func replay(m []byte) []byte {
	le.PutUint32(m[16:], le.Uint32(m[16:])|0x20000000)
	return m
}

// grantedTime returns the time of the context DH2Q in a response to CREATE, in milliseconds; false for
// none, or one that does not grant a persistent handle.
func grantedTime(body []byte) (timeout uint32, ok bool) {
	at, n := le.Uint32(body[80:]), le.Uint32(body[84:])
	if n == 0 {
		return 0, false
	}
	for b := body[at-64:]; ; {
		name, data := b[le.Uint16(b[4:]):], b[le.Uint16(b[10:]):]
		if string(name[:4]) == "DH2Q" {
			return le.Uint32(data), le.Uint32(data[4:]) == 2
		}
		next := le.Uint32(b)
		if next == 0 {
			return 0, false
		}
		b = b[next:]
	}
}

// resume logs alice on from a new connection as the client of another one, whose session it names as
// the previous one, and connects to the same share.
func (c *raw) resume(addr string) *raw {
	c.t.Helper()
	next := dial(c.t, addr)
	next.guid = c.guid
	next.mustNegotiate(0x0311)
	if r := next.setup(testUser, testPassword, c.session); r.status != ntstatus.Success {
		c.t.Fatalf("session set-up: %v", r.status)
	}
	next.mustConnect("data")
	return next
}

// mustReclaim takes a persistent handle over.
func (c *raw) mustReclaim(id [16]byte, guid int) [16]byte {
	c.t.Helper()
	got := c.mustCreate(reclaiming(id, guid))
	if le.Uint64(got[:]) != le.Uint64(id[:]) || got == id {
		c.t.Fatalf("FileId %x after the reclaim of %x", got, id)
	}
	return got
}

// wantOrphans waits until the server has that many orphans.
func wantOrphans(t testing.TB, s *Server, n int) {
	t.Helper()
	for start := time.Now(); s.Stats().Orphans != n; time.Sleep(time.Millisecond) {
		if time.Since(start) > ioTimeout {
			t.Fatalf("%d orphans, want %d", s.Stats().Orphans, n)
		}
	}
}

// lose breaks a connection and waits until its opens are orphans.
func (c *raw) lose(s *Server, orphans int) {
	c.t.Helper()
	c.nc.Close()
	wantOrphans(c.t, s, orphans)
}

// checkNoLineages fails the test if a closed server holds anything of a lineage.
func checkNoLineages(t testing.TB, l *lineages) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.all) + len(l.byName) + len(l.opens) + len(l.byGUID) + len(l.byFile) + len(l.instances); n != 0 || l.orphans.Held() != 0 || l.count.suspended.Load() != 0 {
		t.Errorf("%d lineages, %d names, %d durable opens, %d GUIDs, %d files, %d instances, %d orphans, %d suspended are left",
			len(l.all), len(l.byName), len(l.opens), len(l.byGUID), len(l.byFile), len(l.instances), l.orphans.Held(), l.count.suspended.Load())
	}
}

// exclusive is an open that shares nothing.
func exclusive(name string) create { return create{name: name, access: 3, disposition: 3} }

// A persistent handle is granted for the time that the client asks for, within the bound of the server.
//
// Source: [MS-SMB2 3.3.5.9.10], [MS-SMB2 3.3.5.4], [MS-SMB2 3.3.5.7]
func TestPersistentHandleIsGranted(t *testing.T) {
	for name, x := range map[string]struct {
		dialect        uint16
		off            bool
		open           create
		timeout, flags uint32
		want           uint32 // 0 for no persistent handle
	}{
		"default time":      {dialect: 0x0311, flags: 2, want: 60_000},
		"time of client":    {dialect: 0x0300, timeout: 1234, flags: 2, want: 1234},
		"bound of server":   {dialect: 0x0302, timeout: 1 << 31, flags: 2, want: 300_000},
		"durable only":      {dialect: 0x0311, timeout: 1234},
		"directory":         {dialect: 0x0311, open: create{access: 1, share: 7, disposition: 1, options: 1}, flags: 2},
		"old dialect":       {dialect: 0x0210, flags: 2},
		"off":               {dialect: 0x0311, off: true, flags: 2},
		"off, durable only": {dialect: 0x0311, off: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, addr, _ := testServer(t, func(c *Config) {
				if x.off {
					c.Durable.Timeout = -1
				}
			})
			c := dial(t, addr)
			offered := le.Uint32(c.mustNegotiate(x.dialect).body[24:])&0x10 != 0
			c.mustSetup(testUser, testPassword)
			available := le.Uint32(c.mustConnect("data").body[8:])&0x10 != 0
			if want := x.dialect >= 0x0300 && !x.off; offered != want || available != want {
				t.Errorf("offered: %t, on the share: %t, want %t", offered, available, want)
			}
			o := x.open
			if o.access == 0 {
				o = exclusive("f")
			}
			o.contexts = contextList(durableRequest(1, x.timeout, x.flags))
			r := c.want(ntstatus.Success, cmdCreate, o.body())
			if timeout, ok := grantedTime(r.body); timeout != x.want || ok != (x.want != 0) {
				t.Errorf("time %d, granted: %t; want %d", timeout, ok, x.want)
			}
			ss := s.session(c.session)
			c.nc.Close()
			<-ss.Done()
			wantOrphans(t, s, min(int(x.want), 1))
		})
	}
}

// A persistent handle, its locks, its share mode and its resume key outlive the connection, and the
// client has them again after the reclaim.
//
// Source: [MS-SMB2 3.3.5.9.12], [MS-SMB2 3.3.7.1], [OP-56]
func TestLostConnectionKeepsPersistentHandle(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	c, other := mount(t, addr, "data"), mount(t, addr, "data")
	id := c.mustCreate(persistent(create{name: "f", access: 3, share: 2, disposition: 3}, 1, 0))
	c.mustCreate(exclusive("plain"))
	c.want(ntstatus.Success, cmdWrite, writeBody(id, 0, []byte("before")))
	c.want(ntstatus.Success, cmdLock, lockBody(id, element{0, 10, lockExclusive | lockNow}))
	key, lineage := c.keyOf(id), s.session(c.session).Lineage()
	c.lose(s, 1)
	if st := s.Stats(); st.Suspended != 1 || st.Sessions != 1 {
		t.Errorf("stats %+v", st)
	}

	other.mustCreate(exclusive("plain")) // it has been closed
	other.want(ntstatus.FileNotAvailable, cmdCreate, create{name: "f", access: 1, share: 7, disposition: 1}.body())
	theirs := other.mustCreate(create{name: "f", access: 2, share: 7, disposition: 1})
	other.want(ntstatus.LockNotGranted, cmdLock, lockBody(theirs, element{5, 1, lockExclusive | lockNow}))
	other.want(ntstatus.FileLockConflict, cmdWrite, writeBody(theirs, 0, []byte("theirs")))

	c = c.resume(addr)
	if s.session(c.session).Lineage() != lineage {
		t.Error("the session has another lineage")
	}
	id = c.mustReclaim(id, 1)
	wantOrphans(t, s, 0)
	if r := c.want(ntstatus.Success, cmdRead, readBody(id, 0, 100, 0)); string(r.body[16:]) != "before" {
		t.Errorf("read %q", r.body[16:])
	}
	if string(c.keyOf(id)) != string(key) {
		t.Error("another resume key")
	}
	other.want(ntstatus.LockNotGranted, cmdLock, lockBody(theirs, element{5, 1, lockExclusive | lockNow}))
	other.want(ntstatus.SharingViolation, cmdCreate, create{name: "f", access: 1, share: 7, disposition: 1}.body())
	c.want(ntstatus.Success, cmdLock, lockBody(id, element{0, 10, lockUnlock}))
	c.want(ntstatus.Success, cmdClose, closeBody(id, 0))
	other.mustCreate(create{name: "f", access: 1, share: 7, disposition: 1})
	if st := s.Stats(); st.Reclaimed != 1 || st.Resumed != 1 || st.Suspended != 0 {
		t.Errorf("stats %+v", st)
	}
}

// Above the bound of orphans the oldest opens of a connection are closed with it.
//
// Source: [OP-56]
func TestTooManyOrphansAreClosed(t *testing.T) {
	s, addr, _ := testServer(t, func(c *Config) { c.Durable.MaxOrphans = 400 })
	const opens = 1000
	c := mount(t, addr, "data")
	var ids [][16]byte
	for i := range opens {
		ids = append(ids, c.mustCreate(persistent(create{name: "f", access: 3, share: 7, disposition: 3}, i, 0)))
	}
	c.lose(s, 300)
	c = c.resume(addr) // which waits for the closes
	if st, n := s.Stats(), s.cfg.FS.Stats().Opens; st.OrphansRefused != opens-300 || n != 300 {
		t.Errorf("%d orphans are refused, %d opens are left", st.OrphansRefused, n)
	}
	for _, i := range []int{opens - 1, opens - 300} {
		c.mustReclaim(ids[i], i)
	}
	c.want(ntstatus.ObjectNameNotFound, cmdCreate, reclaiming(ids[opens-301], opens-301).body())
}

// Orphans end with their user, with the rights of their user, and with the server.
//
// Source: [OP-56]
func TestReauthorizeEndsOrphans(t *testing.T) {
	for name, x := range map[string]struct {
		change func(u *userTable)
		ended  int
		apply  func(s *Server)
	}{
		"removed":      {func(u *userTable) { delete(u.passwords, testUser) }, 1, nil},
		"new password": {func(u *userTable) { u.passwords[testUser] = "another" }, 1, nil},
		"rights":       {func(u *userTable) { u.rights[testUser] = 1 }, 0, func(s *Server) { s.cfg.FS.Reauthorize() }},
		"another user": {func(u *userTable) { delete(u.passwords, "bob") }, -1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			users := newUserTable()
			s, addr, _ := users.serve(t)
			c := as(t, addr, testUser)
			c.mustCreate(persistent(exclusive("f"), 1, 0))
			c.lose(s, 1)
			users.change(x.change)
			if n := s.Reauthorize(); n != max(x.ended, 0) {
				t.Errorf("%d sessions end", n)
			}
			if x.apply != nil {
				x.apply(s)
			}
			left := 0
			if x.ended < 0 {
				left = 1
			}
			if n, opens := s.Stats().Orphans, s.cfg.FS.Stats().Opens; n != left || opens != left {
				t.Errorf("%d orphans and %d opens, want %d", n, opens, left)
			}
		})
	}
}
