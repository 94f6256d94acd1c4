package smbserver

import (
	"slices"
	"testing"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// Source: [MS-SMB2 3.3.5.2.7.2]
func TestCompoundPassesSessionTreeAndFileOn(t *testing.T) {
	var c compound
	if c.enter(&smbwire.Header{Flags: smbwire.FlagRelated}, true) {
		t.Error("a first request is related")
	}
	c.enter(&smbwire.Header{SessionID: 7, TreeID: 8}, true)
	if _, st := c.fileID(); st != ntstatus.InvalidParameter {
		t.Errorf("before any file: %v", st)
	}
	id := smbwire.FileID{Persistent: 9, Volatile: 9}
	c.setFile(id)
	c.note(ntstatus.AccessDenied) // of a request on the file, which stays open
	h := smbwire.Header{Flags: smbwire.FlagRelated, SessionID: ^uint64(0), TreeID: ^uint32(0)}
	if !c.enter(&h, false) || h.SessionID != 7 || h.TreeID != 8 {
		t.Errorf("a related request has session %d, tree %d", h.SessionID, h.TreeID)
	}
	if got, st := c.fileID(); got != id || st != ntstatus.Success {
		t.Errorf("%v, %v", got, st)
	}
	c.enter(&smbwire.Header{}, false)
	c.note(ntstatus.ObjectNameNotFound)
	c.note(ntstatus.FileClosed)
	if _, st := c.fileID(); st != ntstatus.ObjectNameNotFound {
		t.Errorf("after a failed CREATE: %v", st)
	}
}

// Source: [MS-SMB2 3.3.5.2.7.2], [MS-SMB2 3.3.4.1.3]
func TestCompoundRequestsShareAHandle(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	c := mount(t, addr, "data")
	statuses := func(msgs ...[]byte) (st []ntstatus.Status) {
		c.send(msgs...)
		for _, r := range c.recv() {
			st = append(st, r.status)
		}
		return st
	}
	got := statuses(related(
		c.message(cmdCreate, rw("f").body()), c.message(cmdWrite, writeBody(noID, 0, []byte("odd"))),
		c.message(cmdQueryInfo, queryBody(noID, 1, 5, 0, 100)), c.message(cmdClose, closeBody(noID, 0)))...)
	if !slices.Equal(got, []ntstatus.Status{0, 0, 0, 0}) {
		t.Errorf("create, write, query, close: %v", got)
	}
	missing := create{name: "none", access: 1, disposition: 1}
	got = statuses(related(c.message(cmdCreate, missing.body()), c.message(cmdRead, readBody(noID, 0, 1, 0)),
		c.message(cmdClose, closeBody(noID, 0)))...)
	nf := ntstatus.ObjectNameNotFound
	if !slices.Equal(got, []ntstatus.Status{nf, nf, nf}) {
		t.Errorf("failed create: %v", got)
	}
	id := c.mustCreate(rw("f"))
	// An error of a request other than the CREATE does not affect the related ones.
	got = statuses(related(c.message(cmdRead, readBody(id, 100, 1, 0)), c.message(cmdRead, readBody(noID, 0, 3, 0)))...)
	if !slices.Equal(got, []ntstatus.Status{ntstatus.EndOfFile, 0}) {
		t.Errorf("read at the end, read: %v", got)
	}
	got = statuses(c.message(cmdRead, readBody(id, 0, 3, 0)), c.message(cmdCreate, missing.body()), c.message(cmdClose, closeBody(id, 0)))
	if !slices.Equal(got, []ntstatus.Status{0, nf, 0}) {
		t.Errorf("unrelated: %v", got)
	}
	m := related(nil, c.message(cmdEcho, []byte{4, 0, 0, 0}))[1]
	le.PutUint64(m[40:], c.session)
	if got = statuses(m); got[0] != ntstatus.InvalidParameter {
		t.Errorf("first element related: %v", got)
	}
}
