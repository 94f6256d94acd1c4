package smbserver

import (
	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/vfs"
)

// handleOplockBreak serves the acknowledgement of the break of an oplock or of a lease.
//
// Source: [MS-SMB2 3.3.5.22]
func handleOplockBreak(r *request) ntstatus.Status {
	if q, err := smbwire.DecodeLeaseAck(r.body()); err == nil {
		return acknowledgeLease(r, &q)
	}
	q, err := smbwire.DecodeOplockBreak(r.body())
	if err != nil {
		return statusOf(err)
	}
	return acknowledgeOplock(r, &q)
}

// acknowledgeLease ends the break of a lease of the client of the connection.
//
// Source: [MS-SMB2 3.3.5.22.2]
func acknowledgeLease(r *request, q *smbwire.LeaseAck) ntstatus.Status {
	key := vfs.LeaseKey{Client: r.conn.agreed.client.GUID, Key: q.LeaseKey}
	if uint32(stateOfLease(q.LeaseState)) != q.LeaseState {
		return ntstatus.RequestNotAccepted
	}
	state, err := r.conn.srv.cfg.FS.AcknowledgeLease(key, stateOfLease(q.LeaseState))
	if err != nil {
		return statusOf(err)
	}
	resp := smbwire.LeaseAck{LeaseKey: q.LeaseKey, LeaseState: uint32(state)}
	r.resp.set(resp.AppendTo(r.resp.begin(64)))
	return ntstatus.Success
}

// acknowledgeOplock ends the break of the oplock of an open. A level that the break does not offer ends the
// oplock.
//
// Source: [MS-SMB2 3.3.5.22.1]
func acknowledgeOplock(r *request, q *smbwire.OplockBreak) ntstatus.Status {
	o, st := r.open(q.FileID)
	switch {
	case st != ntstatus.Success:
		return st
	case o.file == nil || !o.file.Lease().Breaking || o.lease == nil || !o.lease.oplock:
		return ntstatus.InvalidOplockProtocol
	}
	switch q.OplockLevel {
	case smbwire.OplockNone, smbwire.OplockLevelII:
	case smbwire.OplockLease:
		return endOplock(o, ntstatus.InvalidParameter)
	default:
		return endOplock(o, ntstatus.InvalidOplockProtocol)
	}
	state, err := o.file.AcknowledgeOplock(stateOfLevel(q.OplockLevel))
	if err != nil {
		return endOplock(o, ntstatus.InvalidOplockProtocol)
	}
	resp := smbwire.OplockBreak{OplockLevel: levelOfState(state), FileID: r.compound.file}
	r.resp.set(resp.AppendTo(r.resp.begin(64)))
	return ntstatus.Success
}

// endOplock ends an oplock whose acknowledgement is wrong, and returns the status.
func endOplock(o *open, st ntstatus.Status) ntstatus.Status {
	_ = o.file.RevokeLease() // another acknowledgement may have ended the break
	return st
}
