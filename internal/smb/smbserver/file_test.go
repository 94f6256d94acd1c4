package smbserver

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"lwio/internal/ntstatus"
)

// Source: [MS-SMB2 3.3.5.9]
func TestCreateDispositionsAndOptions(t *testing.T) {
	_, addr, dir := testServer(t, nil)
	if err := os.WriteFile(filepath.Join(dir, "old"), []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := mount(t, addr, "data")
	for _, o := range []struct {
		create
		want   ntstatus.Status
		action uint32
	}{
		{create{name: "old", access: 0x80000000, share: 7, disposition: 1}, 0, 1},
		{create{name: "old", access: 0x02000000, share: 7, disposition: 1}, 0, 1},
		{create{name: "none", access: 1, disposition: 1}, ntstatus.ObjectNameNotFound, 0},
		{create{name: `none\x`, access: 1, disposition: 1}, ntstatus.ObjectPathNotFound, 0},
		{create{name: "old", access: 1, disposition: 2}, ntstatus.ObjectNameCollision, 0},
		{create{name: "new", access: 0x40000000, disposition: 2, share: 7}, 0, 2},
		{create{name: "old", access: 3, disposition: 5, share: 7}, 0, 3},
		{create{name: "old", access: 3, disposition: 0, share: 7}, 0, 0},
		{create{name: "sub", access: 1, disposition: 1, options: 0x40}, ntstatus.FileIsADirectory, 0},
		{create{name: "old", access: 1, disposition: 1, options: 0x1, share: 7}, ntstatus.NotADirectory, 0},
		{create{name: "sub2", access: 1, disposition: 2, options: 0x1}, 0, 2},
		{create{name: `..\x`, access: 1, disposition: 1}, ntstatus.ObjectPathSyntaxBad, 0},
		{create{name: `\old`, access: 1, disposition: 1}, ntstatus.InvalidParameter, 0},
		{create{name: "a?b", access: 1, disposition: 1}, ntstatus.ObjectNameInvalid, 0},
		{create{name: "a/b", access: 1, disposition: 1}, ntstatus.ObjectNameInvalid, 0},
		{create{name: "old:stream", access: 1, disposition: 1}, ntstatus.ObjectNameInvalid, 0},
		{create{name: "", access: 0x80, disposition: 1, share: 7}, 0, 1},
		{create{name: "old", access: 1, disposition: 6}, ntstatus.InvalidParameter, 0},
		{create{name: "old", access: 0, disposition: 1}, ntstatus.AccessDenied, 0},
		{create{name: "old", access: 1, disposition: 1, options: 0x2000}, ntstatus.NotSupported, 0},
	} {
		r := c.call(cmdCreate, o.body())
		if r.status != o.want {
			t.Errorf("%+v: %v, want %v", o.create, r.status, o.want)
			continue
		}
		if r.status != 0 {
			continue
		}
		if a := le.Uint32(r.body[4:]); a != o.action || r.body[2] != 0 {
			t.Errorf("%+v: action %d, want %d; oplock %d", o.create, a, o.action, r.body[2])
		}
		c.want(ntstatus.Success, cmdClose, closeBody([16]byte(r.body[64:80]), 0))
	}
	b := rw("old").body()
	b[4] = 9
	c.want(ntstatus.BadImpersonationLevel, cmdCreate, b)
}

// Source: [MS-SMB2 2.2.13], [MS-FSA 2.1.5.1.2]
func TestShareModesBetweenSessions(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	a, b := mount(t, addr, "data"), mount(t, addr, "data")
	id := a.mustCreate(create{name: "f", access: 3, share: 1, disposition: 3})
	b.want(ntstatus.SharingViolation, cmdCreate, create{name: "f", access: 2, share: 7, disposition: 1}.body())
	b.want(ntstatus.FileClosed, cmdRead, readBody(id, 0, 1, 0)) // a handle of another session
	a.want(ntstatus.Success, cmdClose, closeBody(id, 0))
	b.mustCreate(create{name: "f", access: 2, share: 7, disposition: 1})
}

// Source: [MS-SMB2 3.3.5.10] (TreeConnect), [MS-SMB2 3.3.5.8]
func TestHandleBelongsToItsTree(t *testing.T) {
	s, addr, _ := testServer(t, nil)
	c := mount(t, addr, "data")
	id := c.mustCreate(rw("f"))
	first := c.tree
	c.mustConnect("data")
	c.want(ntstatus.FileClosed, cmdRead, readBody(id, 0, 1, 0))
	c.tree = first
	c.want(ntstatus.EndOfFile, cmdRead, readBody(id, 0, 1, 0))
	// Only the first removal of an open succeeds.
	ss := s.session(c.session)
	o := ss.handles.open(le.Uint64(id[:]))
	if !ss.handles.remove(o) || ss.handles.remove(o) {
		t.Error("an open was not taken out once")
	}
	if err := o.close(); err != nil {
		t.Error(err)
	}
}

// createContext makes one context with data.
func createContext(name string, data []byte, last bool) []byte {
	b := make([]byte, 24)
	le.PutUint16(b[4:], 16)
	le.PutUint16(b[6:], uint16(len(name)))
	copy(b[16:], name)
	if len(data) > 0 {
		le.PutUint16(b[10:], 24)
		le.PutUint32(b[12:], uint32(len(data)))
		b = append(b, data...)
	}
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	if !last {
		le.PutUint32(b, uint32(len(b)))
	}
	return b
}

// Source: [MS-SMB2 2.2.13.2], [MS-SMB2 3.3.5.9.5], [MS-SMB2 3.3.5.9.9]
func TestCreateContextsAreAnsweredOrRefused(t *testing.T) {
	_, addr, dir := testServer(t, nil)
	c := mount(t, addr, "data")
	o := rw("f")
	o.contexts = append(createContext("QFid", nil, false), createContext("XyZ1", []byte("unknown"), false)...)
	o.contexts = append(o.contexts, createContext("MxAc", nil, true)...)
	r := c.want(ntstatus.Success, cmdCreate, o.body())
	got := map[string][]byte{}
	off, n := le.Uint32(r.body[80:]), le.Uint32(r.body[84:])
	for b := r.msg[off : off+n]; ; {
		name, data := le.Uint16(b[4:]), le.Uint16(b[10:])
		got[string(b[name:name+4])] = b[data : uint32(data)+le.Uint32(b[12:])]
		next := le.Uint32(b)
		if next == 0 {
			break
		}
		b = b[next:]
	}
	if x := got["MxAc"]; len(x) != 8 || le.Uint32(x) != 0 || le.Uint32(x[4:])&3 != 3 {
		t.Errorf("maximal access %x", x)
	}
	st, err := os.Stat(filepath.Join(dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	if x := got["QFid"]; len(x) != 32 || le.Uint64(x) == 0 {
		t.Errorf("disk id %x of %v", x, st.Name())
	}
	if len(got) != 2 {
		t.Errorf("%d contexts in the response", len(got))
	}
	for name, want := range map[string]ntstatus.Status{
		"ExtA": ntstatus.EAsNotSupported, "DHnC": ntstatus.ObjectNameNotFound, "TWrp": ntstatus.ObjectNameNotFound, "DH2Q": 0,
	} {
		o := rw("f")
		o.contexts = createContext(name, make([]byte, 32), true)
		c.want(want, cmdCreate, o.body())
	}
	o.contexts = createContext("QFid", nil, false) // names a successor that does not exist
	c.want(ntstatus.InvalidParameter, cmdCreate, o.body())
}

// Source: [MS-SMB2 3.3.5.10], [MS-SMB2 3.3.5.11], [MS-SMB2 3.3.5.12], [MS-SMB2 3.3.5.13]
func TestReadWriteFlushClose(t *testing.T) {
	_, addr, dir := testServer(t, nil)
	c := mount(t, addr, "data")
	c.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0}) // collects credits
	id := c.mustCreate(rw("f"))
	data := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{1}).Read(data)
	r := c.want(ntstatus.Success, cmdWrite, writeBody(id, 10, data))
	if n := le.Uint32(r.body[4:]); int(n) != len(data) {
		t.Errorf("wrote %d", n)
	}
	c.want(ntstatus.Success, cmdFlush, append([]byte{24, 0, 0, 0, 0, 0, 0, 0}, id[:]...))
	m := c.charge(c.message(cmdRead, readBody(id, 10, 1<<20, 0)), 16)
	c.send(m)
	if r = c.recv()[0]; r.status != 0 || !bytes.Equal(r.body[16:], data) || r.body[2] != 80 {
		t.Errorf("read back: %v, %d bytes", r.status, len(r.body)-16)
	}
	c.want(ntstatus.EndOfFile, cmdRead, readBody(id, 10+1<<20, 1, 0))
	c.want(ntstatus.EndOfFile, cmdRead, readBody(id, 1<<20, 100, 11))
	c.want(ntstatus.InvalidParameter, cmdRead, readBody(id, 1<<63, 1, 0))
	c.want(ntstatus.InvalidParameter, cmdWrite, writeBody(id, 1<<63-1, []byte("x")))
	// One credit pays for 64 KiB.
	c.want(ntstatus.InvalidParameter, cmdRead, readBody(id, 0, 65537, 0))
	m = c.charge(c.message(cmdRead, readBody(id, 0, 1<<20+1, 0)), 17)
	c.send(m)
	if r = c.recv()[0]; r.status != ntstatus.InvalidParameter {
		t.Errorf("read beyond the limit: %v", r.status)
	}
	bad := writeBody(id, 0, []byte("abc"))
	le.PutUint32(bad[4:], 4)
	c.want(ntstatus.InvalidParameter, cmdWrite, bad)
	r = c.want(ntstatus.Success, cmdClose, closeBody(id, 1))
	if size := le.Uint64(r.body[48:]); size != 10+1<<20 || le.Uint16(r.body[2:]) != 1 {
		t.Errorf("size at close %d", size)
	}
	c.want(ntstatus.FileClosed, cmdClose, closeBody(id, 0))
	if on, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || !bytes.Equal(on[10:], data) {
		t.Errorf("on disk: %d bytes, %v", len(on), err)
	}
	ro := c.mustCreate(create{name: "f", access: 1, share: 7, disposition: 1})
	c.want(ntstatus.AccessDenied, cmdWrite, writeBody(ro, 0, []byte("x")))
}

// Many requests in flight on one connection each get their own response.
//
// Source: [MS-SMB2 3.3.5.1]
func TestConcurrentRequestsAreServed(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	c := mount(t, addr, "data")
	id := c.mustCreate(rw("f"))
	for range 4 {
		c.want(ntstatus.Success, cmdEcho, []byte{4, 0, 0, 0})
	}
	first := c.id
	const n = 60
	var all []byte
	for i := range n {
		all = append(all, c.frame(c.message(cmdWrite, writeBody(id, uint64(i)*1000, bytes.Repeat([]byte{byte(i)}, 1000))))...)
	}
	c.write(all)
	seen := map[uint64]bool{}
	for range n {
		r := c.recv()[0]
		if r.status != 0 || r.id < first || r.id >= first+n || seen[r.id] {
			t.Fatalf("response %d: %v", r.id, r.status)
		}
		seen[r.id] = true
	}
	r := c.want(ntstatus.Success, cmdRead, readBody(id, 0, n*1000, 0))
	for i, b := range r.body[16:] {
		if int(b) != i/1000 {
			t.Fatalf("byte %d is %d", i, b)
		}
	}
}
