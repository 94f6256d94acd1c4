package smbserver

import (
	"strings"

	"lwio/internal/account"
	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbwire"
	"lwio/vfs"
)

// ipcShare is the share of the named pipes.
const ipcShare = "IPC$"

// Access masks of shares.
//
// Source: [MS-SMB2 2.2.13.1]
const (
	accessAll      = 0x001F01FF
	accessReadOnly = 0x001200A9
)

// handleTreeConnect serves TREE_CONNECT.
//
// Source: [MS-SMB2 3.3.5.7]
func handleTreeConnect(r *request, q smbwire.TreeConnectRequest) ntstatus.Status {
	path, err := smbwire.DecodeUTF16(q.Path)
	if err != nil {
		return ntstatus.BadNetworkName
	}
	name := path[strings.LastIndexByte(path, '\\')+1:]
	cfg := &r.conn.srv.cfg
	t := &tree{}
	resp := smbwire.TreeConnectResponse{ShareType: smbwire.ShareTypePipe, ShareFlags: smbwire.ShareFlagNoCaching, MaximalAccess: accessAll}
	if !strings.EqualFold(name, ipcShare) {
		share, rights, err := cfg.FS.Connect(name, r.session.user)
		if err == nil && share.RequireEncryption && r.conn.agreed.cipher == smbauth.NoCipher {
			err = errCannotEncrypt
		}
		r.auditConnect(name, rights, err)
		if err != nil {
			return statusOf(err)
		}
		t.share = share
		resp.ShareType = smbwire.ShareTypeDisk
		if r.conn.agreed.durable {
			resp.Capabilities = smbwire.ShareCapContinuousAvailability
		}
		if t.requiresEncryption() {
			resp.ShareFlags |= smbwire.ShareFlagEncryptData
		}
		if rights < vfs.ReadWrite {
			resp.MaximalAccess = accessReadOnly
		}
	}
	var ok bool
	if t.memory, ok = r.conn.memory.TryCharge(r.session.user, handleMemory, account.Last); !ok {
		return ntstatus.InsufficientResources
	}
	if st := r.session.handles.connect(t); st != ntstatus.Success {
		t.memory.Return()
		return st
	}
	r.hdr.TreeID, r.compound.treeID = t.id, t.id
	r.resp.set(resp.AppendTo(r.resp.begin(16)))
	return ntstatus.Success
}

// handleTreeDisconnect closes the opens of the tree connect before the response is sent.
//
// Source: [MS-SMB2 3.3.5.8], [OP-58b]
func handleTreeDisconnect(r *request, _ smbwire.Empty) ntstatus.Status {
	closeAll(r.conn.srv.cfg.FS, r.session.handles.disconnect(r.tree))
	return r.resp.empty()
}
