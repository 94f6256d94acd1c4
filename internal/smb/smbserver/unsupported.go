package smbserver

import (
	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

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
