package smbserver

import (
	"strings"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// ipcShare is the name of the share of the named pipes.
const ipcShare = "IPC$"

// Access masks of shares.
//
// Source: [MS-SMB2 2.2.13.1]
const (
	accessAll      = 0x001F01FF
	accessReadOnly = 0x001200A9
)

// treeConnect connects to a share.
//
// Source: [MS-SMB2 3.3.5.7]
func (r *request) treeConnect() ntstatus.Status {
	q, err := smbwire.DecodeTreeConnectRequest(r.in())
	if err != nil {
		return statusOf(err)
	}
	path, err := smbwire.DecodeUTF16(q.Path)
	if err != nil {
		return ntstatus.BadNetworkName
	}
	name := path[strings.LastIndexByte(path, '\\')+1:]
	cfg := &r.conn.srv.cfg
	t := &tree{name: name}
	resp := smbwire.TreeConnectResponse{ShareType: smbwire.ShareTypePipe, ShareFlags: smbwire.ShareFlagNoCaching, MaximalAccess: accessAll}
	if !strings.EqualFold(name, ipcShare) {
		share, ok := cfg.FS.Lookup(name)
		if !ok {
			return ntstatus.BadNetworkName
		}
		t.share = share
		resp.ShareType = smbwire.ShareTypeDisk
		if share.ReadOnly {
			resp.MaximalAccess = accessReadOnly
		}
	}
	if st := r.session.connect(t, cfg.MaxTrees); st != ntstatus.Success {
		return st
	}
	r.hdr.TreeID, r.chain.treeID = t.id, t.id
	r.set(resp.AppendTo(r.body(16)))
	return ntstatus.Success
}

// treeDisconnect closes what was opened through the tree connect, and then
// answers.
//
// Source: [MS-SMB2 3.3.5.8], [OP-58b]
func (r *request) treeDisconnect() ntstatus.Status {
	if _, err := smbwire.DecodeEmpty(r.in()); err != nil {
		return statusOf(err)
	}
	closeOpens(r.conn.srv.cfg.FS, r.session.disconnect(r.tree))
	return r.empty()
}
