package smbserver

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// wholeFile is a CREATE of a new file with the context of a whole file.
func wholeFile(name string) create {
	return create{name: name, access: 0x00110192, share: 7, disposition: 2, options: 0x40, contexts: contextList(namedContext{smbwire.CreateContextWhole, nil})}
}

// A message that writes a whole file is executed up to its first failure. The file has its name after it, or there is
// none.
//
// Source: [MS-SMB2 3.3.5.2.7.2]
func TestWholeFileIsWrittenOrNot(t *testing.T) {
	const refused, denied, exists = ntstatus.InvalidParameter, ntstatus.AccessDenied, ntstatus.ObjectNameCollision
	for name, x := range map[string]struct {
		create  create
		offset  uint64 // of the WRITE
		to      string
		want    []ntstatus.Status
		content string // of the file f, which is old before
	}{
		"new name":         {wholeFile("part"), 0, "g", []ntstatus.Status{0, 0, 0, 0}, "old"},
		"other file":       {wholeFile("part"), 0, "f", []ntstatus.Status{0, 0, 0, 0}, "new"},
		"refused write":    {wholeFile("part"), 1 << 63, "f", []ntstatus.Status{0, refused, refused, 0}, "old"},
		"refused rename":   {wholeFile("part"), 0, "d", []ntstatus.Status{0, 0, denied, 0}, "old"},
		"name that exists": {wholeFile("f"), 0, "g", []ntstatus.Status{exists, exists, exists, exists}, "old"},
	} {
		t.Run(name, func(t *testing.T) {
			_, addr, dir := testServer(t, nil)
			c := mount(t, addr, "data")
			if err := os.WriteFile(filepath.Join(dir, "f"), []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
				t.Fatal(err)
			}
			c.send(related(c.message(cmdCreate, x.create.body()), c.message(cmdWrite, writeBody(noID, x.offset, []byte("new"))),
				c.message(cmdSetInfo, setBody(noID, 1, 10, renameInfo(x.to, true))), c.message(cmdClose, closeBody(noID, 0)))...)
			var got []ntstatus.Status
			for _, r := range c.recv() {
				got = append(got, r.status)
			}
			if !slices.Equal(got, x.want) {
				t.Errorf("%v, want %v", got, x.want)
			}
			if b, err := os.ReadFile(filepath.Join(dir, "f")); string(b) != x.content {
				t.Errorf("%q, %v", b, err)
			}
			if _, err := os.Stat(filepath.Join(dir, "part")); err == nil {
				t.Error("the temporary file is left")
			}
			if b, err := os.ReadFile(filepath.Join(dir, "g")); (x.to == "g" && x.want[0] == 0) != (string(b) == "new") {
				t.Errorf("%q, %v", b, err)
			}
		})
	}
}

// The file of a connection that ends before the rename is deleted.
func TestWholeFileEndsWithItsConnection(t *testing.T) {
	_, addr, dir := testServer(t, nil)
	c := mount(t, addr, "data")
	c.mustCreate(wholeFile("part"))
	if _, err := os.Stat(filepath.Join(dir, "part")); err != nil {
		t.Fatal(err)
	}
	c.want(ntstatus.Success, cmdLogoff, []byte{4, 0, 0, 0})
	if _, err := os.Stat(filepath.Join(dir, "part")); err == nil {
		t.Error("the temporary file is left")
	}
}

// The context is answered, but not for a durable open. It is refused with a file that could not be deleted.
func TestWholeFileIsGrantedOrRefused(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	c := mount(t, addr, "data")
	root := create{access: 0x80, share: 7, disposition: 1, contexts: wholeFile("").contexts}
	durable := wholeFile("durable")
	durable.contexts = contextList(durableRequest(1, 0, 2), namedContext{smbwire.CreateContextWhole, nil})
	for name, x := range map[string]struct {
		create  create
		granted bool
	}{"root": {root, true}, "file": {wholeFile("f"), true}, "durable": {durable, false}} {
		r := c.want(ntstatus.Success, cmdCreate, x.create.body())
		resp, err := smbwire.DecodeCreateResponse(r.body)
		granted := slices.ContainsFunc(resp.Contexts, func(x smbwire.CreateContext) bool { return x.Name == smbwire.CreateContextWhole })
		if err != nil || granted != x.granted {
			t.Errorf("%s: granted %v, %v", name, granted, err)
		}
	}
	noDelete, directory, readOnly := wholeFile("a"), wholeFile("b"), wholeFile("c")
	noDelete.access, directory.options, readOnly.attributes = 0x00100192, 1, 1
	for _, x := range []create{noDelete, directory, readOnly} {
		c.want(ntstatus.InvalidParameter, cmdCreate, x.body())
		c.want(ntstatus.ObjectNameNotFound, cmdCreate, create{name: x.name, access: 0x80, share: 7, disposition: 1}.body())
	}
}
