package smbserver

import (
	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// handleChangeNotify refuses CHANGE_NOTIFY: vfs reports no changes of directories.
//
// Source: [MS-SMB2 3.3.5.19]
func handleChangeNotify(r *request, q smbwire.ChangeNotifyRequest) ntstatus.Status {
	if _, st := r.open(q.FileID); st != ntstatus.Success {
		return st
	}
	return ntstatus.NotSupported
}

// handleOplockBreak refuses the acknowledgement of an oplock or a lease: the server grants none.
//
// Source: [MS-SMB2 3.3.5.22.1]
func handleOplockBreak(r *request) ntstatus.Status {
	if _, err := smbwire.DecodeLeaseAck(r.body()); err == nil {
		return ntstatus.ObjectNameNotFound
	}
	q, err := smbwire.DecodeOplockBreak(r.body())
	if err != nil {
		return statusOf(err)
	}
	if _, st := r.open(q.FileID); st != ntstatus.Success {
		return st
	}
	return ntstatus.InvalidOplockProtocol
}
