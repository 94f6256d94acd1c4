package smbserver

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
	"unicode/utf16"

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
func TestCreateContexts(t *testing.T) {
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

// list enumerates a directory and returns the names.
func (c *raw) list(id [16]byte, class, flags byte, pattern string, room uint32) (names []string) {
	c.t.Helper()
	nameAt := map[byte][2]int{1: {60, 64}, 2: {60, 68}, 3: {60, 94}, 12: {8, 12}, 37: {60, 104}, 38: {60, 80}}[class]
	for {
		r := c.call(cmdQueryDirectory, findBody(id, class, flags, pattern, room))
		if r.status == ntstatus.NoMoreFiles || r.status == ntstatus.NoSuchFile {
			if r.status == ntstatus.NoSuchFile {
				names = append(names, "(no such file)")
			}
			return names
		}
		if r.status != 0 {
			c.t.Fatalf("list: %v", r.status)
		}
		flags &^= 1
		n := le.Uint32(r.body[4:])
		if n > room {
			c.t.Fatalf("%d bytes, room for %d", n, room)
		}
		for b := r.body[8 : 8+n]; ; {
			ln := int(le.Uint32(b[nameAt[0]:]))
			var u []uint16
			for i := 0; i < ln; i += 2 {
				u = append(u, le.Uint16(b[nameAt[1]+i:]))
			}
			names = append(names, string(utf16.Decode(u)))
			next := le.Uint32(b)
			if next == 0 {
				break
			}
			if next%8 != 0 {
				c.t.Fatalf("entry %d bytes long", next)
			}
			b = b[next:]
		}
	}
}

// Source: [MS-SMB2 3.3.5.18], [MS-FSCC 2.4]
func TestQueryDirectory(t *testing.T) {
	_, addr, dir := testServer(t, nil)
	want := []string{".", ".."}
	for i := range 300 {
		name := fmt.Sprintf("file-%03d.txt", i)
		want = append(want, name)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := mount(t, addr, "data")
	id := c.mustCreate(create{access: 1, share: 7, disposition: 1, options: 1})
	for _, class := range []byte{1, 2, 3, 12, 37, 38} {
		got := c.list(id, class, 1, "*", 4096)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("class %d: %d names", class, len(got))
		}
	}
	if got := c.list(id, 37, 1, "FILE-00?.TXT", 65536); len(got) != 10 {
		t.Errorf("pattern: %v", got)
	}
	if got := c.list(id, 37, 1, "nothing*", 65536); len(got) != 1 || got[0] != "(no such file)" {
		t.Errorf("pattern without a match: %v", got)
	}
	if got := c.list(id, 37, 1, "file-007.txt", 65536); !slices.Equal(got, []string{"file-007.txt"}) {
		t.Errorf("one name: %v", got)
	}
	if got := c.list(id, 37, 1|2, "*", 65536); len(got) != 302 {
		t.Errorf("one entry at a time: %d", len(got))
	}
	// An enumeration continues with its first pattern, and restarts on request.
	r := c.want(ntstatus.Success, cmdQueryDirectory, findBody(id, 12, 1|2, "*", 1000))
	if n := le.Uint32(r.body[4:]); n != 14 {
		t.Errorf("one entry of %d bytes", n)
	}
	if got := c.list(id, 12, 0, "file-000.txt", 65536); len(got) != 301 {
		t.Errorf("rest: %d names", len(got))
	}
	c.want(ntstatus.NoMoreFiles, cmdQueryDirectory, findBody(id, 12, 0, "*", 1000))
	c.want(ntstatus.InfoLengthMismatch, cmdQueryDirectory, findBody(id, 12, 1, "*", 10))
	// One name that did not fit is there for a larger buffer.
	c.want(ntstatus.InfoLengthMismatch, cmdQueryDirectory, findBody(id, 12, 1, "file-007.txt", 20))
	c.want(ntstatus.Success, cmdQueryDirectory, findBody(id, 12, 0, "file-007.txt", 1000))
	c.want(ntstatus.NoMoreFiles, cmdQueryDirectory, findBody(id, 12, 0, "file-007.txt", 1000))
	c.want(ntstatus.InvalidInfoClass, cmdQueryDirectory, findBody(id, 99, 1, "*", 1000))
	f := c.mustCreate(rw("file-000.txt"))
	c.want(ntstatus.InvalidParameter, cmdQueryDirectory, findBody(f, 12, 1, "*", 1000))
}

// Source: [MS-SMB2 3.3.5.20.1], [MS-FSCC 2.4]
func TestQueryInfo(t *testing.T) {
	_, addr, dir := testServer(t, nil)
	if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, 5000), 0o600); err != nil {
		t.Fatal(err)
	}
	when := time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)
	if err := os.Chtimes(filepath.Join(dir, "f"), when, when); err != nil {
		t.Fatal(err)
	}
	c := mount(t, addr, "data")
	id := c.mustCreate(rw("f"))
	ask := func(typ, class byte, extra, n uint32) []byte {
		r := c.want(ntstatus.Success, cmdQueryInfo, queryBody(id, typ, class, extra, n))
		return r.body[8 : 8+le.Uint32(r.body[4:])]
	}
	for class, size := range map[byte]int{4: 40, 5: 24, 6: 8, 7: 4, 8: 4, 14: 8, 16: 4, 17: 4, 34: 56, 35: 8} {
		if b := ask(1, class, 0, 1000); len(b) != size {
			t.Errorf("class %d: %d bytes, want %d", class, len(b), size)
		}
	}
	if b := ask(1, 4, 0, 1000); le.Uint64(b[16:]) != uint64(when.Unix()+11644473600)*1e7 {
		t.Errorf("last write %d", le.Uint64(b[16:]))
	}
	if b := ask(1, 5, 0, 1000); le.Uint64(b[8:]) != 5000 || le.Uint32(b[16:]) != 1 || b[21] != 0 {
		t.Errorf("standard information %x", b)
	}
	if b := ask(1, 18, 0, 1000); len(b) < 100 || le.Uint64(b[48:]) != 5000 {
		t.Errorf("all information %x", b)
	}
	// Information that does not fit is cut, if its fixed part fits.
	r := c.want(ntstatus.BufferOverflow, cmdQueryInfo, queryBody(id, 1, 18, 0, 101))
	if n := le.Uint32(r.body[4:]); n != 101 {
		t.Errorf("%d bytes of 101", n)
	}
	c.want(ntstatus.InfoLengthMismatch, cmdQueryInfo, queryBody(id, 1, 4, 0, 39))
	c.want(ntstatus.InvalidInfoClass, cmdQueryInfo, queryBody(id, 1, 200, 0, 1000))
	for class, size := range map[byte]int{3: 24, 4: 8, 7: 32} {
		if b := ask(2, class, 0, 1000); len(b) != size {
			t.Errorf("file system class %d: %d bytes", class, len(b))
		}
	}
	for _, class := range []byte{1, 5, 8, 11} {
		if b := ask(2, class, 0, 1000); len(b) < 12 {
			t.Errorf("file system class %d: %d bytes", class, len(b))
		}
	}
	if b := ask(3, 0, 7, 1000); len(b) != 20+12+12+28 || le.Uint16(b[2:]) != 0x8004 {
		t.Errorf("security descriptor %x", b)
	}
	r = c.call(cmdQueryInfo, queryBody(id, 3, 0, 7, 10))
	if r.status != ntstatus.BufferTooSmall || len(r.body) < 12 {
		t.Errorf("security in 10 bytes: %v, %x", r.status, r.body)
	}
	c.want(ntstatus.InvalidParameter, cmdQueryInfo, queryBody(id, 9, 0, 0, 10))
}

// Source: [MS-SMB2 3.3.5.21.1], [MS-FSCC 2.4]
func TestSetInfo(t *testing.T) {
	_, addr, dir := testServer(t, nil)
	c := mount(t, addr, "data")
	id := c.mustCreate(rw("f"))
	other := c.mustCreate(rw("g"))
	c.want(ntstatus.Success, cmdClose, closeBody(other, 0))
	set := func(class byte, data []byte) ntstatus.Status {
		return c.call(cmdSetInfo, setBody(id, 1, class, data)).status
	}
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	if st := set(20, le.AppendUint64(nil, 12345)); st != 0 {
		t.Errorf("end of file: %v", st)
	}
	if st, err := os.Stat(filepath.Join(dir, "f")); err != nil || st.Size() != 12345 {
		t.Errorf("size %d, %v", st.Size(), err)
	}
	if st := set(20, le.AppendUint64(nil, 1<<63)); st != ntstatus.InvalidParameter {
		t.Errorf("negative end of file: %v", st)
	}
	if st := set(19, le.AppendUint64(nil, 100)); st != 0 {
		t.Errorf("allocation: %v", st)
	}
	if st, err := os.Stat(filepath.Join(dir, "f")); err != nil || st.Size() != 100 {
		t.Errorf("size after a smaller allocation: %d, %v", st.Size(), err)
	}
	basic := make([]byte, 40)
	le.PutUint64(basic[16:], uint64(1580702706+11644473600)*1e7)
	if st := set(4, basic); st != 0 {
		t.Errorf("basic: %v", st)
	}
	if st, err := os.Stat(filepath.Join(dir, "f")); err != nil || st.ModTime().Unix() != 1580702706 {
		t.Errorf("time %v, %v", st.ModTime(), err)
	}
	if st := set(4, basic[:36]); st != ntstatus.InfoLengthMismatch {
		t.Errorf("basic cut short: %v", st)
	}
	if st := set(10, renameInfo("g", false)); st != ntstatus.ObjectNameCollision {
		t.Errorf("rename onto another: %v", st)
	}
	if st := set(10, renameInfo(`..\g`, true)); st != ntstatus.ObjectPathSyntaxBad {
		t.Errorf("rename out of the share: %v", st)
	}
	if st := set(10, renameInfo("g", true)); st != 0 || exists("f") || !exists("g") {
		t.Errorf("rename with replacement: %v", st)
	}
	if st := set(10, renameInfo(`\h`, false)); st != 0 || !exists("h") {
		t.Errorf("rename with a leading backslash: %v", st)
	}
	if st := set(13, []byte{1}); st != 0 {
		t.Errorf("disposition: %v", st)
	}
	if st := set(13, []byte{0}); st != 0 {
		t.Errorf("disposition taken back: %v", st)
	}
	if st := set(64, []byte{1, 0, 0, 0}); st != 0 {
		t.Errorf("disposition, newer: %v", st)
	}
	if st := set(99, []byte{1}); st != ntstatus.InvalidInfoClass {
		t.Errorf("unknown class: %v", st)
	}
	if st := set(11, renameInfo("link", false)); st != ntstatus.NotSupported {
		t.Errorf("hard link: %v", st)
	}
	c.want(ntstatus.Success, cmdClose, closeBody(id, 0))
	if exists("h") {
		t.Error("file lives after its delete")
	}
	ro := c.mustCreate(create{name: "g2", access: 1, disposition: 2})
	c.want(ntstatus.AccessDenied, cmdSetInfo, setBody(ro, 1, 13, []byte{1}))
	c.want(ntstatus.AccessDenied, cmdSetInfo, setBody(ro, 1, 10, renameInfo("x", false)))
	c.want(ntstatus.AccessDenied, cmdSetInfo, setBody(ro, 1, 20, le.AppendUint64(nil, 1)))
}
