package smbserver

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/test/quiet"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// endless is a backend whose directories have entries without end.
type endless struct{ vfs.Backend }

func (b endless) Open(path string, how vfs.HandleMode) (vfs.Handle, error) {
	h, err := b.Backend.Open(path, how)
	return endlessDir{h}, err
}

type endlessDir struct{ vfs.Handle }

func (d endlessDir) Names(n int, _ bool) ([]string, error) {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint("n", i)
	}
	return list, nil
}

func (d endlessDir) Entry(_, name string) (vfs.FileInfo, error) { return vfs.FileInfo{Name: name}, nil }

// endlessServer has one share, of endless directories.
func endlessServer(t *testing.T) (addr string) {
	t.Helper()
	b, err := posix.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	_, addr = backendServer(t, endless{b})
	return addr
}

// backendServer has one share, data, of a backend.
func backendServer(t *testing.T, b vfs.Backend) (s *Server, addr string) {
	t.Helper()
	fs, err := vfs.New(vfs.Config{Shares: []vfs.Share{{Name: "data", Backend: b}}})
	if err != nil {
		t.Fatal(err)
	}
	s, addr, _ = testServer(t, func(c *Config) {
		t.Cleanup(func() {
			if err := fs.Close(); err != nil {
				t.Error(err)
			}
		})
		c.FS = fs
	})
	return s, addr
}

// CANCEL, CLOSE and LOGOFF end a QUERY_DIRECTORY that looks at entries of which none matches.
//
// Source: [MS-SMB2 3.3.5.16], [OP-58b]
func TestQueryDirectoryEnds(t *testing.T) {
	addr := endlessServer(t)
	dir := create{access: 0x80000000, share: 7, disposition: 1, options: 1}
	for _, c := range []struct {
		name string
		end  func(c *raw, id [16]byte, message uint64)
		want []ntstatus.Status // the second if the server had not begun the query
	}{
		{"CANCEL", func(c *raw, _ [16]byte, message uint64) { c.cancel(message, false) }, []ntstatus.Status{ntstatus.Cancelled}},
		{"CLOSE", func(c *raw, id [16]byte, _ uint64) { c.send(c.message(cmdClose, closeBody(id, 0))) }, []ntstatus.Status{ntstatus.FileClosed}},
		{"LOGOFF", func(c *raw, _ [16]byte, _ uint64) { c.send(c.message(cmdLogoff, []byte{4, 0, 0, 0})) }, []ntstatus.Status{ntstatus.Cancelled, ntstatus.UserSessionDeleted}},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := mount(t, addr, "data")
			id := client.mustCreate(dir)
			client.want(ntstatus.Success, cmdQueryDirectory, findBody(id, 37, 0, "*", 1024))
			m := client.message(cmdQueryDirectory, findBody(id, 37, 1, "no such name *", 1024))
			client.send(m)
			for start := time.Now(); time.Since(start) < 10*time.Second; {
				c.end(client, id, le.Uint64(m[24:])) // the server may not have begun the query yet
				client.send(client.message(cmdEcho, []byte{4, 0, 0, 0}))
				for echoed := false; !echoed; {
					r := client.recv()[0]
					if r.command == cmdQueryDirectory {
						if !slices.Contains(c.want, r.status) {
							t.Errorf("%v, want %v", r.status, c.want)
						}
						return
					}
					echoed = r.command == cmdEcho
				}
			}
			t.Error("the query goes on")
		})
	}
}

// A pattern that is longer than any name is refused, before any entry is looked at.
//
// Source: [MS-FSA 2.1.5.6.3]
func TestQueryDirectoryRefusesLongPattern(t *testing.T) {
	client := mount(t, endlessServer(t), "data")
	id := client.mustCreate(create{access: 0x80000000, share: 7, disposition: 1, options: 1})
	for _, p := range []string{strings.Repeat("*a", 128), strings.Repeat("*", 32767), strings.Repeat("a", 256)} {
		client.want(ntstatus.ObjectNameInvalid, cmdQueryDirectory, findBody(id, 37, 0, p, 1024))
	}
	client.want(ntstatus.Success, cmdQueryDirectory, findBody(id, 37, 0, strings.Repeat("*", 255), 1024))
}

// An enumeration takes little memory between its requests: a user can have thousands of them, with
// long patterns, in directories with long names.
func TestEnumerationTakesLittleMemory(t *testing.T) {
	pattern := "*"
	for i := range 126 {
		pattern += "<" + string(rune(0x4E00+i)) // in no name
	}
	for name, x := range map[string]struct {
		list func(c *raw, id [16]byte)
		most int64 // bytes
	}{
		"pattern": {func(c *raw, id [16]byte) {
			c.want(ntstatus.NoSuchFile, cmdQueryDirectory, findBody(id, 37, 0, pattern, 4096))
		}, 8 << 10},
		"names": {func(c *raw, id [16]byte) {
			for range 3 { // ".", ".." and a file
				c.want(ntstatus.Success, cmdQueryDirectory, findBody(id, 37, 2, "*", 4096))
			}
		}, 24 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			_, addr, dir := testServer(t, nil)
			for i := range 200 {
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s%03d", strings.Repeat("x", 250), i)), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c := mount(t, addr, "data")
			quiet.Wait()
			before := heapInUse()
			const enumerations = 100
			for range enumerations {
				x.list(c, c.mustCreate(create{access: 0x120089, share: 7, disposition: 1}))
			}
			quiet.Wait()
			if n := (int64(heapInUse()) - int64(before)) / enumerations; n > x.most {
				t.Errorf("an enumeration takes %d bytes, at most %d expected", n, x.most)
			}
		})
	}
}
