package smbserver

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
	"unicode/utf16"

	"lwio/internal/ntstatus"
	"lwio/vfs"
)

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
func TestQueryDirectoryContinuesAndRestarts(t *testing.T) {
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
func TestQueryInfoOfEachClass(t *testing.T) {
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
	for class, size := range map[byte]int{3: 24, 4: 8, 6: 48, 7: 32} {
		if b := ask(2, class, 0, 1000); len(b) != size {
			t.Errorf("file system class %d: %d bytes", class, len(b))
		}
	}
	for _, class := range []byte{1, 5, 8, 11} {
		if b := ask(2, class, 0, 1000); len(b) < 12 {
			t.Errorf("file system class %d: %d bytes", class, len(b))
		}
	}
	for class, least := range map[byte]uint32{1: 24, 5: 16} {
		c.want(ntstatus.InfoLengthMismatch, cmdQueryInfo, queryBody(id, 2, class, 0, least-1))
		c.want(ntstatus.BufferOverflow, cmdQueryInfo, queryBody(id, 2, class, 0, least))
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
func TestSetInfoOfEachClass(t *testing.T) {
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

// The position of an open is behind the last byte read, until the client sets it.
//
// Source: [MS-FSCC 2.4.40]
func TestPositionFollowsReads(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	c := mount(t, addr, "data")
	id := c.mustCreate(rw("f"))
	c.want(ntstatus.Success, cmdWrite, writeBody(id, 0, make([]byte, 30)))
	position := func(want uint64) {
		t.Helper()
		r := c.want(ntstatus.Success, cmdQueryInfo, queryBody(id, 1, 14, 0, 8))
		all := c.want(ntstatus.Success, cmdQueryInfo, queryBody(id, 1, 18, 0, 1000))
		if got, inAll := le.Uint64(r.body[8:]), le.Uint64(all.body[8+80:]); got != want || inAll != want {
			t.Errorf("position %d, and %d in all information, want %d", got, inAll, want)
		}
	}
	position(0)
	c.want(ntstatus.Success, cmdRead, readBody(id, 7, 10, 0))
	position(17)
	c.want(ntstatus.Success, cmdSetInfo, setBody(id, 1, 14, le.AppendUint64(nil, 5)))
	position(5)
}

// Each file has the attribute Archive, and a directory has not.
//
// Source: [MS-FSCC 2.6]
func TestFilesRequireBackup(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	c := mount(t, addr, "data")
	for _, x := range []struct {
		open create
		want uint32
	}{
		{rw("f"), vfs.AttrArchive},
		{create{name: "d", access: 0x80000000, disposition: 3, options: 1}, vfs.AttrDirectory},
	} {
		r := c.want(ntstatus.Success, cmdCreate, x.open.body())
		b := c.want(ntstatus.Success, cmdQueryInfo, queryBody([16]byte(r.body[64:80]), 1, 4, 0, 40)).body[8:]
		if created, now := le.Uint32(r.body[56:]), le.Uint32(b[32:]); created != x.want || now != x.want {
			t.Errorf("%s: attributes %#x and %#x, want %#x", x.open.name, created, now, x.want)
		}
	}
}
