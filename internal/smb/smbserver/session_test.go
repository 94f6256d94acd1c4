package smbserver

import (
	"bytes"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/vfs"
	"lwio/vfs/posix"
)

var allDialects = []uint16{0x0202, 0x0210, 0x0300, 0x0302, 0x0311}

// Source: [MS-SMB2 3.3.5.4], [MS-SMB2 3.3.5.5]
func TestEachDialectNegotiatesAndLogsOn(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	for _, d := range allDialects {
		c := login(t, addr, d)
		c.mustConnect("DATA")
		id := c.mustCreate(rw("f"))
		c.want(ntstatus.Success, cmdWrite, writeBody(id, 0, []byte("hello")))
		r := c.want(ntstatus.Success, cmdRead, readBody(id, 0, 100, 0))
		if got := r.body[16:]; string(got) != "hello" || le.Uint32(r.body[4:]) != 5 {
			t.Errorf("dialect %#x: read %q", d, got)
		}
		ss := s.session(c.session)
		if ss.User() != testUser || ss.Dialect() != d || ss.ApplicationKey() != c.keys.Application {
			t.Errorf("dialect %#x: session of %q, keys equal: %v", d, ss.User(), ss.ApplicationKey() == c.keys.Application)
		}
		c.want(ntstatus.Success, cmdLogoff, []byte{4, 0, 0, 0})
		<-ss.Done()
		if !ss.Lineage().LoggedOff() {
			t.Errorf("dialect %#x: it was not the client that ended the session", d)
		}
	}
}

// All spellings of a user have one name and one set of limits.
//
// Source: [MS-SMB2 3.3.5.5.3]
func TestSpellingsOfAUserAreOneUser(t *testing.T) {
	s, addr, _ := testServer(t, func(c *Config) { c.Rates.Bytes = 1 << 30 })
	var first *Session
	for _, spelling := range []string{"boss", "BOSS", "Boss", "bo\u017fs"} {
		c := dial(t, addr)
		c.mustNegotiate(0x0311)
		c.mustSetup(spelling, testPassword)
		ss := s.session(c.session)
		if first == nil {
			first = ss
		}
		if ss.User() != "boss" || ss.Limiter() != first.Limiter() {
			t.Errorf("%q is user %q, with the limits of boss: %t", spelling, ss.User(), ss.Limiter() == first.Limiter())
		}
	}
}

// A session that ends with its connection is not logged off.
//
// Source: [MS-SMB2 3.3.7.1]
func TestLostSessionIsNotLoggedOff(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	c := login(t, addr, 0x0311)
	ss := s.session(c.session)
	c.nc.Close()
	<-ss.Done()
	if ss.Lineage().LoggedOff() {
		t.Error("a lost connection is a LOGOFF")
	}
}

// Source: [MS-SMB2 3.3.5.4]
func TestNegotiateResponseFields(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	r := dial(t, addr).mustNegotiate(0x0311)
	if le.Uint16(r.body) != 65 || le.Uint16(r.body[2:]) != 3 || le.Uint32(r.body[24:]) != 0x16 {
		t.Errorf("size %d, security mode %d, capabilities %#x", le.Uint16(r.body), le.Uint16(r.body[2:]), le.Uint32(r.body[24:]))
	}
	for i, name := range []string{"transaction", "read", "write"} {
		if n := le.Uint32(r.body[28+4*i:]); n != DefaultMaxTransferSize {
			t.Errorf("largest %s %d", name, n)
		}
	}
	off, n := le.Uint16(r.body[56:]), le.Uint16(r.body[58:])
	if token := r.msg[off : off+n]; !bytes.Contains(token, []byte("\x2b\x06\x01\x05\x05\x02")) {
		t.Errorf("security buffer %x", token)
	}
	types := map[uint16][]byte{}
	at := int(le.Uint32(r.body[60:]))
	for range le.Uint16(r.body[6:]) {
		n := int(le.Uint16(r.msg[at+2:]))
		types[le.Uint16(r.msg[at:])] = r.msg[at+8 : at+8+n]
		at += (8 + n + 7) &^ 7
	}
	if p := types[1]; len(p) != 38 || le.Uint16(p[4:]) != 1 {
		t.Errorf("pre-authentication context %x", p)
	}
	if p := types[8]; !bytes.Equal(p, []byte{1, 0, 2, 0}) {
		t.Errorf("signing context %x, want GMAC", p)
	}
	if _, there := types[2]; there {
		t.Error("encryption is offered")
	}
}

// Source: [MS-SMB2 3.3.5.4]
func TestInvalidNegotiationsAreRefused(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	for name, c := range map[string]struct {
		body []byte
		want ntstatus.Status
	}{
		"unknown dialects": {negotiateBody(0x0999, 0x0123), ntstatus.NotSupported},
		"no dialect":       {append(negotiateBody(0x0210)[:2:2], append([]byte{0, 0}, negotiateBody(0x0210)[4:]...)...), ntstatus.InvalidParameter},
		"3.1.1 without contexts": {func() []byte {
			b := negotiateBody(0x0311)
			le.PutUint16(b[32:], 0)
			return b
		}(), ntstatus.InvalidParameter},
		"other hash": {func() []byte {
			b := negotiateBody(0x0311)
			at := int(le.Uint32(b[28:])) - 64
			b[at+12] = 9
			return b
		}(), ntstatus.SMBNoPreauthIntegrityHashOverlap},
	} {
		cl := dial(t, addr)
		if r := cl.call(cmdNegotiate, c.body); r.status != c.want {
			t.Errorf("%s: %v, want %v", name, r.status, c.want)
		}
	}
	// A second negotiation ends the connection.
	cl := dial(t, addr)
	cl.mustNegotiate(0x0302)
	cl.send(cl.message(cmdNegotiate, negotiateBody(0x0302)))
	cl.wantCut()
}

// Source: [MS-SMB2 3.3.5.5], [MS-SMB2 3.3.5.5.3]
func TestFailedLogonEndsTheSession(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	for _, c := range []struct{ user, password string }{{testUser, "wrong"}, {"mallory", testPassword}} {
		cl := dial(t, addr)
		cl.mustNegotiate(0x0311)
		if r := cl.setup(c.user, c.password, 0); r.status != ntstatus.LogonFailure {
			t.Errorf("%s/%s: %v", c.user, c.password, r.status)
		}
		// The session has ended, the connection has not.
		if s.session(cl.session) != nil {
			t.Errorf("%s/%s: session is still known", c.user, c.password)
		}
		if r := cl.call(cmdTreeConnect, connectBody("data")); r.status != ntstatus.UserSessionDeleted {
			t.Errorf("after the failure: %v", r.status)
		}
		cl.session = 0
		cl.mustSetup(testUser, testPassword)
	}
	cl := dial(t, addr)
	cl.mustNegotiate(0x0311)
	if r := cl.setup("", "", 0); r.status != ntstatus.AccessDenied {
		t.Errorf("anonymous: %v", r.status)
	}
	if got := s.Stats().AuthFailures; got != 3 {
		t.Errorf("%d failures counted, want 3", got)
	}
}

// Source: [MS-SMB2 3.3.5.5.3] (re-authentication)
func TestReauthenticationKeepsTheSession(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	c := mount(t, addr, "data")
	id := c.mustCreate(rw("f"))
	if r := c.setup(testUser, testPassword, 0); r.status != ntstatus.Success {
		t.Fatalf("once more: %v", r.status)
	}
	c.want(ntstatus.Success, cmdWrite, writeBody(id, 0, []byte("x")))
	if r := c.setup("bob", testPassword, 0); r.status != ntstatus.AccessDenied {
		t.Errorf("as another user: %v", r.status)
	}
	if r := c.call(cmdWrite, writeBody(id, 0, []byte("x"))); r.status != ntstatus.UserSessionDeleted {
		t.Errorf("after a failure: %v", r.status)
	}
	c = mount(t, addr, "data")
	if r := c.setup(testUser, "wrong", 0); r.status != ntstatus.LogonFailure {
		t.Errorf("with a wrong password: %v", r.status)
	}
	if r := c.call(cmdCreate, rw("f").body()); r.status != ntstatus.UserSessionDeleted {
		t.Errorf("after a wrong password: %v", r.status)
	}
}

// Source: [MS-SMB2 3.3.5.5.3] (PreviousSessionId)
func TestPreviousSessionOfTheUserEnds(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	old := mount(t, addr, "data")
	old.mustCreate(create{name: "f", access: 3, disposition: 3})
	other := dial(t, addr)
	other.mustNegotiate(0x0311)
	if r := other.setup("bob", testPassword, old.session); r.status != ntstatus.Success {
		t.Fatal(r.status)
	}
	if ss := s.session(old.session); ss == nil || !ss.valid() {
		t.Fatal("another user has ended the session")
	}
	c := dial(t, addr)
	c.mustNegotiate(0x0311)
	if r := c.setup(testUser, testPassword, old.session); r.status != ntstatus.Success {
		t.Fatal(r.status)
	}
	if s.session(old.session) != nil {
		t.Fatal("previous session lives")
	}
	c.mustConnect("data")
	c.mustCreate(create{name: "f", access: 3, disposition: 1}) // no sharing violation: it was closed
	if r := old.call(cmdEcho, []byte{4, 0, 0, 0}); r.status != ntstatus.UserSessionDeleted && r.status != ntstatus.Success {
		t.Errorf("old connection: %v", r.status)
	}
}

// A session is not bound to a second connection, and goes on. Nothing of the second connection uses
// it.
//
// Source: [MS-SMB2 3.3.5.5]
func TestSessionBindingIsRefused(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	for _, d := range allDialects {
		c := login(t, addr, d)
		b := setupBody([]byte("x"), 0)
		b[2] = 1
		c.want(ntstatus.RequestNotAccepted, cmdSessionSetup, b)
		other := dial(t, addr)
		other.mustNegotiate(d)
		other.session = c.session
		other.want(ntstatus.RequestNotAccepted, cmdSessionSetup, b)
		other.want(ntstatus.UserSessionDeleted, cmdSessionSetup, setupBody([]byte("x"), 0))
		other.want(ntstatus.UserSessionDeleted, cmdTreeConnect, connectBody("data"))
		c.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	}
}

// Source: [MS-SMB2 3.3.5.2.4], [MS-SMB2 3.3.5.2.9]
func TestSigningIsRequired(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	for _, d := range allDialects {
		c := login(t, addr, d)
		m := c.message(cmdTreeConnect, connectBody("data"))
		signer := c.signer
		c.signer = nil
		c.send(m)
		if r := c.recv()[0]; r.status != ntstatus.AccessDenied {
			t.Errorf("%#x: unsigned: %v", d, r.status)
		}
		c.signer = signer
		f := c.frame(c.message(cmdTreeConnect, connectBody("data")))
		f[4+50] ^= 1
		c.write(f)
		if r := c.recv()[0]; r.status != ntstatus.AccessDenied {
			t.Errorf("%#x: wrong signature: %v", d, r.status)
		}
		c.mustConnect("data")
	}
	if n := s.Stats().BadSignatures; n != uint64(len(allDialects)) {
		t.Errorf("%d wrong signatures counted", n)
	}
}

// Source: [MS-SMB2 3.3.5.7], [MS-SMB2 3.3.5.8]
func TestTreeConnectToEachKindOfShare(t *testing.T) {
	_, addr, dir := testServer(t, nil)
	c := login(t, addr, 0x0311)
	c.want(ntstatus.BadNetworkName, cmdTreeConnect, connectBody("nothing"))
	c.want(ntstatus.BadNetworkName, cmdTreeConnect, connectBody(""))
	if r := c.mustConnect("data"); r.body[2] != 1 || le.Uint32(r.body[12:]) != 0x001F01FF {
		t.Errorf("disk share: %x", r.body)
	}
	c.mustCreate(create{name: "doomed", access: 0x10003, disposition: 2, options: 0x1040})
	c.want(ntstatus.Success, cmdTreeDisconnect, []byte{4, 0, 0, 0})
	if _, err := os.Stat(filepath.Join(dir, "doomed")); !os.IsNotExist(err) {
		t.Errorf("tree disconnect left an open alive: %v", err)
	}
	c.want(ntstatus.NetworkNameDeleted, cmdCreate, rw("f").body())
	if r := c.mustConnect("ro"); le.Uint32(r.body[12:]) != 0x001200A9 {
		t.Errorf("read-only share: %x", r.body)
	}
	c.want(ntstatus.AccessDenied, cmdCreate, rw("f").body())
	if r := c.mustConnect("IPC$"); r.body[2] != 2 {
		t.Errorf("IPC$: %x", r.body)
	}
}

// Source: [MS-SMB2 3.3.5.6], [OP-58b]
func TestLogoffClosesOpensFirst(t *testing.T) {
	_, addr, dir := testServer(t, nil)
	c := mount(t, addr, "data")
	c.mustCreate(create{name: "doomed", access: 0x10003, disposition: 2, options: 0x1040})
	c.want(ntstatus.Success, cmdLogoff, []byte{4, 0, 0, 0})
	if _, err := os.Stat(filepath.Join(dir, "doomed")); !os.IsNotExist(err) {
		t.Errorf("the response to LOGOFF came before the open was closed: %v", err)
	}
	c.signer = nil
	c.want(ntstatus.UserSessionDeleted, cmdTreeConnect, connectBody("data"))
}

// Source: [MS-SMB2 3.3.5.16], [MS-SMB2 3.3.5.17]
func TestEchoAndCancel(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	c := dial(t, addr)
	c.mustNegotiate(0x0311)
	c.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	// A CANCEL of no request has no response and takes no id.
	m := c.message(cmdCancel, []byte{4, 0, 0, 0})
	c.id--
	c.send(m)
	c.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
}

// Source: [MS-SMB2 3.3.5.22]
func TestUnsupportedCommandsAreRefused(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	c := mount(t, addr, "data")
	id := c.mustCreate(rw("f"))
	oplock := append([]byte{24, 0, 0, 0, 0, 0, 0, 0}, id[:]...)
	c.want(ntstatus.InvalidOplockProtocol, cmdOplockBreak, oplock)
	oplock[8] ^= 0x55
	c.want(ntstatus.FileClosed, cmdOplockBreak, oplock)
	c.want(ntstatus.InvalidParameter, 99, []byte{4, 0, 0, 0})
}

// Source: [MS-SMB2 3.3.5.15.12]
func TestValidateNegotiateDetectsTampering(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	info := func() []byte {
		b := le.AppendUint32(nil, 4)
		b = append(b, negotiateBody(0x0302)[12:28]...)
		b = le.AppendUint16(le.AppendUint16(b, 1), 1)
		return le.AppendUint16(b, 0x0302)
	}
	c := login(t, addr, 0x0302)
	c.mustConnect("data")
	r := c.want(ntstatus.Success, cmdIoctl, ioctlBody(noID, 0x00140204, info(), 24))
	if out := r.body[48:]; len(out) != 24 || le.Uint32(out) != 0x16 || le.Uint16(out[20:]) != 3 || le.Uint16(out[22:]) != 0x0302 {
		t.Errorf("response %x", out)
	}
	for name, change := range map[string]func(b []byte) ([]byte, uint32, uint16){
		"capabilities": func(b []byte) ([]byte, uint32, uint16) { b[0] ^= 1; return b, 24, 0x0302 },
		"guid":         func(b []byte) ([]byte, uint32, uint16) { b[5] ^= 1; return b, 24, 0x0302 },
		"mode":         func(b []byte) ([]byte, uint32, uint16) { b[20] ^= 2; return b, 24, 0x0302 },
		"dialects":     func(b []byte) ([]byte, uint32, uint16) { b[24] ^= 2; return b, 24, 0x0302 },
		"small output": func(b []byte) ([]byte, uint32, uint16) { return b, 23, 0x0302 },
		"cut short":    func(b []byte) ([]byte, uint32, uint16) { return b[:24], 24, 0x0302 },
		"3.1.1":        func(b []byte) ([]byte, uint32, uint16) { b[24] = 0x11; return b, 24, 0x0311 },
	} {
		in, out, dialect := change(info())
		c := login(t, addr, dialect)
		c.mustConnect("data")
		c.send(c.message(cmdIoctl, ioctlBody(noID, 0x00140204, in, out)))
		t.Log(name)
		c.wantCut()
	}
}

// hooked is a backend whose handles call hook before they describe or read their file.
type hooked struct {
	vfs.Backend
	hook func()
}

func (b hooked) Open(path string, how vfs.HandleMode) (vfs.Handle, error) {
	h, err := b.Backend.Open(path, how)
	return hookedHandle{h, b.hook}, err
}

type hookedHandle struct {
	vfs.Handle
	hook func()
}

func (h hookedHandle) Stat() (vfs.FileInfo, error) {
	h.hook()
	return h.Handle.Stat()
}

func (h hookedHandle) ReadAt(p []byte, off int64) (int, error) {
	h.hook()
	return h.Handle.ReadAt(p, off)
}

// A request that is served while its session ends reports the end of the session, and not that
// its file is closed. A read has no data.
//
// Source: [MS-SMB2 3.3.5.2.9]
func TestRequestDuringEndOfItsSession(t *testing.T) {
	for name, r := range map[string]struct {
		cmd  uint16
		body func(id [16]byte) []byte
	}{
		"close": {cmdClose, func(id [16]byte) []byte { return closeBody(id, 1) }},
		"read":  {cmdRead, func(id [16]byte) []byte { return readBody(id, 0, 4, 0) }},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "f"), []byte("data"), 0o600); err != nil {
				t.Fatal(err)
			}
			var hook atomic.Pointer[func()]
			b, err := posix.OpenDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			s, addr := backendServer(t, hooked{b, func() {
				if f := hook.Load(); f != nil {
					(*f)()
				}
			}})
			c := mount(t, addr, "data")
			id := c.mustCreate(create{name: "f", access: 1, share: 7, disposition: 1})
			ss := s.session(c.session)
			ends := func() {
				ss.state.Store(sessionClosed)
				ss.handles.close()
			}
			hook.Store(&ends)
			c.want(ntstatus.UserSessionDeleted, r.cmd, r.body(id))
		})
	}
}
