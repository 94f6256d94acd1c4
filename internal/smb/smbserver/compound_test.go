package smbserver

import (
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
