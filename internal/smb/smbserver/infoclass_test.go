package smbserver

import (
	"os"
	"path/filepath"
	"testing"

	"lwio/internal/ntstatus"
)

// classes maps information classes to a status.
type classes map[ntstatus.Status][]byte

// of returns the status of a class, INVALID_INFO_CLASS if the map does not have it.
func (m classes) of(class byte) ntstatus.Status {
	for st, list := range m {
		for _, c := range list {
			if c == class {
				return st
			}
		}
	}
	return ntstatus.InvalidInfoClass
}

// Each of the 256 classes of a query is answered, or refused with the status for a class that the
// server does not offer or that does not exist.
//
// Source: [MS-SMB2 3.3.5.20.1], [MS-SMB2 3.3.5.20.2], [MS-FSCC 2.4], [MS-FSCC 2.5]
func TestQueryOfEveryClassHasItsStatus(t *testing.T) {
	_, addr, dir := testServer(t, nil)
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := mount(t, addr, "data")
	file := c.mustCreate(rw("f"))
	// Basic to EA, access, name, position, mode to all, alternate name, stream, compression,
	// network open, attribute tag, normalized name, id.
	files := classes{
		ntstatus.Success:         {4, 5, 6, 7, 8, 9, 14, 16, 17, 18, 21, 22, 28, 34, 35, 48, 59},
		ntstatus.EAsNotSupported: {15},
	}
	// Volume, size, device, attribute, control, full size, object id, sector size.
	volumes := classes{ntstatus.Success: {1, 3, 4, 5, 6, 7, 8, 11}}
	for i := range 256 {
		class := byte(i)
		if st := c.call(cmdQueryInfo, queryBody(file, 1, class, 0, 4096)).status; st != files.of(class) {
			t.Errorf("class %d of a file: %v, want %v", class, st, files.of(class))
		}
		if st := c.call(cmdQueryInfo, queryBody(file, 2, class, 0, 4096)).status; st != volumes.of(class) {
			t.Errorf("class %d of a volume: %v, want %v", class, st, volumes.of(class))
		}
	}
	// Quotas are not offered; other kinds of information do not exist.
	c.want(ntstatus.NotSupported, cmdQueryInfo, queryBody(file, 4, 32, 0, 4096))
	for _, kind := range []byte{0, 5, 255} {
		c.want(ntstatus.InvalidParameter, cmdQueryInfo, queryBody(file, kind, 4, 0, 4096))
	}
	attributes := c.mustCreate(create{name: "f", access: 0x80, share: 7, disposition: 1})
	c.want(ntstatus.AccessDenied, cmdQueryInfo, queryBody(attributes, 1, 15, 0, 4096))
}

// A class of an enumeration is one of the seven forms of entries.
//
// Source: [MS-SMB2 3.3.5.18], [MS-FSCC 2.4]
func TestEnumerationOfEveryClassHasItsStatus(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	c := mount(t, addr, "data")
	dir := c.mustCreate(create{access: 1, share: 7, disposition: 1, options: 1})
	forms := classes{ntstatus.Success: {1, 2, 3, 12, 37, 38, 60}}
	for i := range 256 {
		if st := c.call(cmdQueryDirectory, findBody(dir, byte(i), 1, "*", 4096)).status; st != forms.of(byte(i)) {
			t.Errorf("class %d: %v, want %v", i, st, forms.of(byte(i)))
		}
	}
}

// Each of the 256 classes of SET_INFO without data is too short, not offered, or does not exist.
//
// Source: [MS-SMB2 3.3.5.21.1], [MS-FSCC 2.4]
func TestChangeOfEveryClassHasItsStatus(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	c := mount(t, addr, "data")
	file := c.mustCreate(rw("f"))
	// Basic, rename, disposition, position, allocation, end of file, and the newer forms of
	// disposition and rename; EAs; link, mode, valid data length.
	want := classes{
		ntstatus.InfoLengthMismatch: {4, 10, 13, 14, 19, 20, 64, 65},
		ntstatus.EAsNotSupported:    {15},
		ntstatus.NotSupported:       {11, 16, 39},
	}
	for i := range 256 {
		if st := c.call(cmdSetInfo, setBody(file, 1, byte(i), nil)).status; st != want.of(byte(i)) {
			t.Errorf("class %d: %v, want %v", i, st, want.of(byte(i)))
		}
	}
	// Labels and quotas of volumes, access lists and quotas of users are not offered.
	for _, kind := range []byte{2, 3, 4} {
		c.want(ntstatus.NotSupported, cmdSetInfo, setBody(file, kind, 2, make([]byte, 64)))
	}
	c.want(ntstatus.InvalidParameter, cmdSetInfo, setBody(file, 5, 4, make([]byte, 64)))
}
