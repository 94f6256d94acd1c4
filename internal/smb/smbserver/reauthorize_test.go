package smbserver

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
	"lwio/vfs"
)

// userTable has the passwords of users, and their rights on the share "data". A test may change
// it at any time.
type userTable struct {
	mu        sync.Mutex
	passwords map[string]string
	rights    map[string]vfs.Rights
	looked    func() // runs after a look-up, without mu; may be nil
}

func (u *userTable) lookup(_, user string) (name string, ntHash [16]byte, ok bool) {
	u.mu.Lock()
	p, ok := u.passwords[user]
	looked := u.looked
	u.mu.Unlock()
	if looked != nil {
		looked()
	}
	return user, smbauth.NTHash(p), ok
}

func (u *userTable) rightsOf(user string) vfs.Rights {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.rights[user]
}

func (u *userTable) change(f func(u *userTable)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f(u)
}

// serve starts a server with the users and their rights.
func (u *userTable) serve(t *testing.T) (s *Server, addr, dir string) {
	return testServer(t, func(c *Config) {
		c.Lookup, c.AuthFailures = u.lookup, -1
		share, _, err := c.FS.Connect("data", "")
		if err != nil {
			t.Fatal(err)
		}
		share.Rights = u.rightsOf // no client is connected yet
	})
}

func newUserTable() *userTable {
	return &userTable{
		passwords: map[string]string{testUser: testPassword, "bob": testPassword},
		rights:    map[string]vfs.Rights{testUser: vfs.ReadWrite, "bob": vfs.ReadOnly},
	}
}

// as logs a user on and connects to "data".
func as(t *testing.T, addr, user string) *raw {
	t.Helper()
	c := dial(t, addr)
	c.mustNegotiate(0x0311)
	c.mustSetup(user, testPassword)
	c.mustConnect("data")
	return c
}

// Reauthorize ends the sessions of a removed user and of a user with a new password, with their
// opens, and no others.
func TestReauthorizeEndsSessionsOfChangedUsers(t *testing.T) {
	for name, change := range map[string]func(u *userTable){
		"removed":      func(u *userTable) { delete(u.passwords, testUser) },
		"new password": func(u *userTable) { u.passwords[testUser] = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			users := newUserTable()
			s, addr, dir := users.serve(t)
			gone, stays := as(t, addr, testUser), as(t, addr, "bob")
			gone.mustCreate(create{name: "doomed", access: 0x10003, disposition: 2, options: 0x1040})
			ss := s.session(gone.session)
			if n := s.Reauthorize(); n != 0 {
				t.Errorf("%d sessions end without a change", n)
			}
			gone.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
			users.change(change)
			if n := s.Reauthorize(); n != 1 {
				t.Errorf("%d sessions end", n)
			}
			select {
			case <-ss.Done():
			default:
				t.Error("Reauthorize returns before the end of the session")
			}
			if _, err := os.Stat(filepath.Join(dir, "doomed")); !os.IsNotExist(err) {
				t.Errorf("an open of the user is left: %v", err)
			}
			if r := gone.call(cmdCreate, rw("f").body()); r.status != ntstatus.UserSessionDeleted {
				t.Errorf("CREATE after the end: %v", r.status)
			}
			again := dial(t, addr)
			again.mustNegotiate(0x0311)
			if r := again.setup(testUser, testPassword, 0); r.status != ntstatus.LogonFailure {
				t.Errorf("logon with the old password: %v", r.status)
			}
			stays.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
		})
	}
}

// A new password does not end a session by Kerberos, whose ticket does not depend on it; the removal of the
// user does. A session that authenticates by both mechanisms depends on the last one.
func TestReauthorizeKeepsSessionsByKerberos(t *testing.T) {
	users := newUserTable()
	f := &fakeTickets{user: testUser, size: 64, end: time.Now().Add(time.Hour)}
	s, addr, _ := testServer(t, func(c *Config) { c.Lookup, c.Kerberos = users.lookup, f })
	c := dial(t, addr)
	c.mustNegotiate(0x0311)
	if r := f.logon(c); r.status != ntstatus.Success {
		t.Fatal(r.status)
	}
	users.change(func(u *userTable) { u.passwords[testUser] = "another" })
	if n := s.Reauthorize(); n != 0 {
		t.Errorf("%d sessions end by a new password", n)
	}
	if r := c.setup(testUser, "another", 0); r.status != ntstatus.Success {
		t.Fatalf("authentication by NTLM: %v", r.status)
	}
	if r := f.logon(c); r.status != ntstatus.Success {
		t.Fatalf("authentication by Kerberos: %v", r.status)
	}
	users.change(func(u *userTable) { u.passwords[testUser] = "a third" })
	if n := s.Reauthorize(); n != 0 {
		t.Errorf("%d sessions end by a new password", n)
	}
	c.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	users.change(func(u *userTable) { delete(u.passwords, testUser) })
	if n := s.Reauthorize(); n != 1 {
		t.Errorf("%d sessions end with their user", n)
	}
}

// A logon whose password was looked up before the user was removed, and that ends after
// Reauthorize, fails.
func TestReauthorizeFindsLogonsInProgress(t *testing.T) {
	users := newUserTable()
	s, addr, _ := users.serve(t)
	users.looked = func() {
		users.change(func(u *userTable) {
			delete(u.passwords, testUser)
			u.looked = nil
		})
		s.Reauthorize()
	}
	c := dial(t, addr)
	c.mustNegotiate(0x0311)
	if r := c.setup(testUser, testPassword, 0); r.status != ntstatus.LogonFailure {
		t.Errorf("session set-up of a removed user: %v", r.status)
	}
	if st := s.Stats(); st.Sessions != 0 {
		t.Errorf("%d sessions", st.Sessions)
	}
}

// A session that has authenticated again with the new password of its user stays.
func TestReauthorizeKeepsRenewedSessions(t *testing.T) {
	users := newUserTable()
	s, addr, _ := users.serve(t)
	c := as(t, addr, testUser)
	users.change(func(u *userTable) { u.passwords[testUser] = "another" })
	if r := c.setup(testUser, "another", 0); r.status != ntstatus.Success {
		t.Fatalf("authentication with the new password: %v", r.status)
	}
	if n := s.Reauthorize(); n != 0 {
		t.Errorf("%d sessions end", n)
	}
	c.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
}

// The rights of the user bound the tree connect, its maximal access, and each open.
//
// Source: [MS-SMB2 3.3.5.7]
func TestTreeConnectIsBoundedByRights(t *testing.T) {
	users := newUserTable()
	users.passwords["eve"] = testPassword
	s, addr, _ := users.serve(t)
	writer := as(t, addr, testUser)
	writer.mustCreate(rw("f"))
	reader := dial(t, addr)
	reader.mustNegotiate(0x0311)
	reader.mustSetup("bob", testPassword)
	if r := reader.mustConnect("data"); le.Uint32(r.body[12:]) != accessReadOnly {
		t.Errorf("maximal access of a reader is %#x", le.Uint32(r.body[12:]))
	}
	if r := reader.call(cmdCreate, rw("f").body()); r.status != ntstatus.AccessDenied {
		t.Errorf("open for writing by a reader: %v", r.status)
	}
	id := reader.mustCreate(create{name: "f", access: 0x120089, share: 7, disposition: 1})
	reader.want(ntstatus.EndOfFile, cmdRead, readBody(id, 0, 100, 0))
	eve := dial(t, addr)
	eve.mustNegotiate(0x0311)
	eve.mustSetup("eve", testPassword)
	if r := eve.call(cmdTreeConnect, connectBody("data")); r.status != ntstatus.AccessDenied {
		t.Errorf("tree connect without rights: %v", r.status)
	}
	eve.mustConnect("ro")
	users.change(func(u *userTable) { delete(u.rights, "bob") })
	if n := s.cfg.FS.Reauthorize(); n != 1 {
		t.Errorf("%d opens are closed", n)
	}
	if r := reader.call(cmdRead, readBody(id, 0, 100, 0)); r.status != ntstatus.FileClosed {
		t.Errorf("read after the rights were withdrawn: %v", r.status)
	}
	if r := reader.call(cmdCreate, create{name: "f", access: 0x120089, share: 7, disposition: 1}.body()); r.status != ntstatus.AccessDenied {
		t.Errorf("open after the rights were withdrawn: %v", r.status)
	}
	reader.want(ntstatus.Success, cmdClose, closeBody(id, 0))
}

// Users that come and go all the time never leave a session behind.
func TestReauthorizeWithConcurrentLogons(t *testing.T) {
	users := newUserTable()
	s, addr, _ := users.serve(t)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for range 30 {
				c := dial(t, addr) // connected until the end of the test
				c.mustNegotiate(0x0311)
				if r := c.setup("bob", testPassword, 0); r.status == ntstatus.Success {
					c.call(cmdTreeConnect, connectBody("data"))
				}
			}
		})
	}
	for i := range 60 {
		users.change(func(u *userTable) {
			if i%2 == 0 {
				delete(u.passwords, "bob")
			} else {
				u.passwords["bob"] = testPassword
			}
		})
		s.Reauthorize()
		time.Sleep(time.Millisecond)
	}
	users.change(func(u *userTable) { delete(u.passwords, "bob") })
	s.Reauthorize()
	all.Wait()
	if st := s.Stats(); st.Sessions != 0 {
		t.Errorf("%d sessions of a removed user are left", st.Sessions)
	}
}

// A logon of a session that ends meanwhile fails, and changes nothing of the session: requests in
// flight, and the end of the session itself, use its user and its keys. The connection counts for its
// own user to the end.
func TestReauthenticationDuringEndOfItsSession(t *testing.T) {
	for name, user := range map[string]string{"same user": testUser, "another user": "bob"} {
		t.Run(name, func(t *testing.T) {
			u := newUserTable()
			s, addr, _ := u.serve(t)
			c := as(t, addr, testUser)
			ss := s.session(c.session)
			keys, signer, cipher := ss.keys, ss.signer, ss.cipher
			u.change(func(u *userTable) { u.looked = func() { ss.state.Store(sessionClosed) } })
			if r := c.setup(user, testPassword, 0); r.status != ntstatus.UserSessionDeleted {
				t.Errorf("status %v", r.status)
			}
			if ss.user != testUser || ss.keys != keys || ss.signer != signer || ss.cipher != cipher {
				t.Errorf("the session has another user (%q) or other keys", ss.user)
			}
			for _, name := range []string{testUser, "bob"} {
				if n := s.users.HeldBy(name); n != 0 {
					t.Errorf("%d connections of %s are left", n, name)
				}
			}
		})
	}
}
