package smbserver

import (
	"encoding/binary"
	"errors"
	"fmt"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

const (
	// ioctlFixed is the length of the body of a response to IOCTL without its output, in bytes.
	ioctlFixed = 56
	// maxIoctlOutput bounds the output of an IOCTL, in bytes.
	maxIoctlOutput = maxPipeResult
)

var errValidate = errors.New("negotiation was tampered with")

// handleIoctl serves IOCTL.
//
// Source: [MS-SMB2 3.3.5.15]
func handleIoctl(r *request, q smbwire.IoctlRequest) ntstatus.Status {
	sent := uint32(len(q.Input) + len(q.Output))
	limit := r.conn.agreed.maxTransfer
	switch {
	case q.Flags != smbwire.IoctlIsFSCTL:
		return ntstatus.NotSupported
	case sent > limit || q.MaxInputResponse > limit || q.MaxOutputResponse > limit,
		!r.paid(sent, q.MaxInputResponse+q.MaxOutputResponse):
		return ntstatus.InvalidParameter
	}
	if !r.reserve(ioctlFixed + min(int(q.MaxOutputResponse), maxIoctlOutput)) {
		return ntstatus.ConnectionDisconnected
	}
	var out []byte
	var st ntstatus.Status
	if ofShare(q.CtlCode) {
		if q.FileID != smbwire.RelatedFileID {
			return ntstatus.InvalidParameter
		}
		out, st = ioctlShare(r, &q)
	} else {
		o, bad := r.open(q.FileID)
		if bad != ntstatus.Success {
			return bad
		}
		q.FileID = r.compound.file
		out, st = ioctlOpen(r, o, &q)
	}
	if r.dropped || !r.resp.carriesBody(st) {
		return st
	}
	resp := smbwire.IoctlResponse{CtlCode: q.CtlCode, FileID: q.FileID, Output: out}
	r.resp.set(resp.AppendTo(r.resp.begin(ioctlFixed + len(out))))
	return st
}

// ofShare reports whether a control code applies to the share instead of an open.
//
// Source: [MS-SMB2 3.3.5.15]
func ofShare(code uint32) bool {
	switch code {
	case smbwire.FsctlDFSGetReferrals, smbwire.FsctlPipeWait, smbwire.FsctlQueryNetworkInterfaceInfo,
		smbwire.FsctlValidateNegotiateInfo:
		return true
	}
	return false
}

func ioctlShare(r *request, q *smbwire.IoctlRequest) ([]byte, ntstatus.Status) {
	switch q.CtlCode {
	case smbwire.FsctlValidateNegotiateInfo:
		return validateNegotiate(r, q)
	case smbwire.FsctlPipeWait:
		return nil, pipeWait(r, q.Input)
	case smbwire.FsctlDFSGetReferrals:
		return nil, ntstatus.FSDriverRequired
	}
	return nil, ntstatus.NotSupported
}

func ioctlOpen(r *request, o *open, q *smbwire.IoctlRequest) ([]byte, ntstatus.Status) {
	switch q.CtlCode {
	case smbwire.FsctlSrvRequestResumeKey:
		return resumeKey(r, o, int(q.MaxOutputResponse))
	case smbwire.FsctlSrvCopyChunk, smbwire.FsctlSrvCopyChunkWrite:
		return copyChunks(r, o, q)
	case smbwire.FsctlPipeTransceive:
		if o.pipe == nil {
			return nil, ntstatus.NotSupported
		}
		return transceive(r, o.pipe, q)
	case smbwire.FsctlCreateOrGetObjectID:
		return objectID(o, int(q.MaxOutputResponse))
	}
	return nil, ntstatus.InvalidDeviceRequest
}

// resumeKey returns the resume key of an open. A client that asks for more than the 32
// bytes of a plain key also gets the context of LWIO, if LWIO is offered.
//
// Source: [MS-SMB2 3.3.5.15.8], [OP-30], [OP-31], [OP-33]
func resumeKey(r *request, o *open, room int) ([]byte, ntstatus.Status) {
	switch {
	case o.file == nil:
		return nil, ntstatus.InvalidDeviceRequest
	case room < smbwire.ResumeKeySize:
		return nil, ntstatus.InvalidParameter
	}
	key := smbwire.ResumeKey{Key: o.file.ResumeKey()}
	if f := r.conn.srv.cfg.ResumeKeyContext; f != nil && room > smbwire.ResumeKeySize {
		key.Context = f()
	}
	out := key.AppendTo(nil)
	if len(out) > room {
		key.Context = nil
		out = key.AppendTo(out[:0])
	}
	return out, ntstatus.Success
}

// objectID returns the object id of a file, which follows from the identity of the file in the file
// system. It has the form of ClassFSObjectID: the ids of the birth of the file are not known.
//
// Source: [MS-FSCC 2.3.1], [MS-FSCC 2.1.3.1]
func objectID(o *open, room int) ([]byte, ntstatus.Status) {
	if o.file == nil {
		return nil, ntstatus.InvalidDeviceRequest
	}
	var id smbwire.FSObjectIDInfo
	out := id.ObjectID[:0]
	out = binary.LittleEndian.AppendUint64(out, o.file.Node().Device)
	binary.LittleEndian.AppendUint64(out, o.file.Node().File)
	if out = id.AppendTo(nil); len(out) > room {
		return nil, ntstatus.BufferTooSmall
	}
	return out, ntstatus.Success
}

// validateNegotiate repeats the negotiated values in a signed message. If the values of the
// client differ, the negotiation was tampered with, and the connection is cut.
//
// Source: [MS-SMB2 3.3.5.15.12]
func validateNegotiate(r *request, q *smbwire.IoctlRequest) ([]byte, ntstatus.Status) {
	a := &r.conn.agreed
	v, err := smbwire.DecodeValidateNegotiateRequest(q.Input)
	resp := smbwire.ValidateNegotiateResponse{
		Capabilities: a.caps, GUID: r.conn.srv.cfg.GUID, SecurityMode: securityMode, Dialect: a.dialect,
	}
	out := resp.AppendTo(nil)
	if err != nil || int(q.MaxOutputResponse) < len(out) || !a.confirms(&v) {
		return nil, r.drop(fmt.Errorf("%w: %w", errProtocol, errValidate))
	}
	return out, ntstatus.Success
}
