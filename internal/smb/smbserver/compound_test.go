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

// A request that follows CLOSE, TREE_DISCONNECT or LOGOFF in a compound finds that the file, the tree
// connect or the session has ended. A related request after one without session or tree connect is
// refused.
//
// Source: [MS-SMB2 3.3.5.2.7.2]
func TestCompoundGoesOnAfterTheEndOfItsHandles(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	const closed, noTree, noSession = ntstatus.FileClosed, ntstatus.NetworkNameDeleted, ntstatus.UserSessionDeleted
	const invalid = ntstatus.InvalidParameter
	for _, x := range []struct {
		name string
		msgs func(c *raw) [][]byte
		want []ntstatus.Status
	}{
		{"CLOSE", func(c *raw) [][]byte {
			return related(c.message(cmdCreate, rw("f").body()), c.message(cmdClose, closeBody(noID, 0)),
				c.message(cmdRead, readBody(noID, 0, 1, 0)), c.message(cmdClose, closeBody(noID, 0)),
				c.message(cmdCreate, rw("f").body()), c.message(cmdClose, closeBody(noID, 0)))
		}, []ntstatus.Status{0, 0, closed, closed, 0, 0}},
		{"TREE_DISCONNECT", func(c *raw) [][]byte {
			return related(c.message(cmdCreate, rw("f").body()), c.message(cmdTreeDisconnect, []byte{4, 0, 0, 0}),
				c.message(cmdWrite, writeBody(noID, 0, []byte("x"))), c.message(cmdClose, closeBody(noID, 0)))
		}, []ntstatus.Status{0, 0, noTree, invalid}},
		{"LOGOFF", func(c *raw) [][]byte {
			return related(c.message(cmdCreate, rw("f").body()), c.message(cmdLogoff, []byte{4, 0, 0, 0}),
				c.message(cmdWrite, writeBody(noID, 0, []byte("x"))), c.message(cmdLogoff, []byte{4, 0, 0, 0}))
		}, []ntstatus.Status{0, 0, noSession, invalid}},
		{"unrelated requests after LOGOFF", func(c *raw) [][]byte {
			return [][]byte{c.message(cmdLogoff, []byte{4, 0, 0, 0}), c.message(cmdLogoff, []byte{4, 0, 0, 0}), c.message(cmdCreate, rw("f").body())}
		}, []ntstatus.Status{0, noSession, noSession}},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := mount(t, addr, "data")
			c.send(x.msgs(c)...)
			for i, r := range c.recv() {
				if r.status != x.want[i] {
					t.Errorf("response %d: %v, want %v", i, r.status, x.want[i])
				}
			}
		})
	}
}

// The response to a signed request on a session that has ended repeats the signature of the request.
func TestResponseWithoutKeyRepeatsSignature(t *testing.T) {
	_, addr, _ := testServer(t, nil)
	c := mount(t, addr, "data")
	c.want(ntstatus.Success, cmdLogoff, []byte{4, 0, 0, 0})
	m := c.message(cmdLogoff, []byte{4, 0, 0, 0})
	frame := c.frame(m)
	c.write(frame)
	r := c.recv()[0]
	if r.status != ntstatus.UserSessionDeleted || r.flags&8 == 0 || !slices.Equal(r.msg[48:64], frame[4+48:4+64]) {
		t.Errorf("%v, flags %x, signature %x of %x", r.status, r.flags, r.msg[48:64], frame[4+48:4+64])
	}
	c.signer = nil
	if r := c.call(cmdLogoff, []byte{4, 0, 0, 0}); r.status != ntstatus.UserSessionDeleted || r.flags&8 != 0 {
		t.Errorf("unsigned request: %v, flags %x", r.status, r.flags)
	}
}
