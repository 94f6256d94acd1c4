package smbserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

var errValidate = errors.New("negotiation was tampered with")

// ioctl does a control operation.
//
// Source: [MS-SMB2 3.3.5.15]
func (r *request) ioctl() ntstatus.Status {
	q, err := smbwire.DecodeIoctlRequest(r.in())
	if err != nil {
		return statusOf(err)
	}
	sent := uint32(len(q.Input) + len(q.Output))
	limit := r.conn.maxTransfer
	switch {
	case q.Flags != smbwire.IoctlIsFSCTL:
		return ntstatus.NotSupported
	case sent > limit || q.MaxInputResponse > limit || q.MaxOutputResponse > limit,
		!r.paid(sent, q.MaxInputResponse+q.MaxOutputResponse):
		return ntstatus.InvalidParameter
	}
	var out []byte
	var st ntstatus.Status
	if ofShare(q.CtlCode) {
		if q.FileID != smbwire.RelatedFileID {
			return ntstatus.InvalidParameter
		}
		out, st = r.ioctlShare(&q)
	} else {
		o, bad := r.open(q.FileID)
		if bad != ntstatus.Success {
			return bad
		}
		q.FileID = r.chain.file
		out, st = r.ioctlOpen(o, &q)
	}
	if r.dropped || !carriesBody(st) {
		return st
	}
	resp := smbwire.IoctlResponse{CtlCode: q.CtlCode, FileID: q.FileID, Output: out}
	r.set(resp.AppendTo(r.body(56 + len(out))))
	return st
}

// ofShare reports whether a control code is about the share, not about an open
// in it.
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

func (r *request) ioctlShare(q *smbwire.IoctlRequest) ([]byte, ntstatus.Status) {
	switch q.CtlCode {
	case smbwire.FsctlValidateNegotiateInfo:
		return r.validateNegotiate(q)
	case smbwire.FsctlPipeWait:
		return nil, r.pipeWait(q.Input)
	case smbwire.FsctlDFSGetReferrals:
		return nil, ntstatus.FSDriverRequired
	}
	return nil, ntstatus.NotSupported
}

func (r *request) ioctlOpen(o *open, q *smbwire.IoctlRequest) ([]byte, ntstatus.Status) {
	switch q.CtlCode {
	case smbwire.FsctlSrvRequestResumeKey:
		return r.resumeKey(o, int(q.MaxOutputResponse))
	case smbwire.FsctlPipeTransceive:
		if o.pipe == nil {
			return nil, ntstatus.NotSupported
		}
		var out []byte
		st := r.waiting(func(ctx context.Context) (st ntstatus.Status) {
			out, st = o.pipe.transact(ctx, q.Input, int(q.MaxOutputResponse))
			return st
		})
		return out, st
	}
	return nil, ntstatus.InvalidDeviceRequest
}

// resumeKey tells a client the key of its open. Who offers more than the 32
// bytes that plain clients know of is told where LWIO is, if it is.
//
// Source: [MS-SMB2 3.3.5.15.8], [OP-30], [OP-31], [OP-33]
func (r *request) resumeKey(o *open, room int) ([]byte, ntstatus.Status) {
	switch {
	case o.file == nil:
		return nil, ntstatus.InvalidDeviceRequest
	case room < smbwire.ResumeKeySize:
		return nil, ntstatus.InvalidParameter
	}
	key := smbwire.ResumeKey{Key: o.file.ResumeKey()}
	if f := r.conn.srv.cfg.ResumeKeyContext; f != nil && room > smbwire.ResumeKeySize {
		key.Context = f(r.session, o.file)
	}
	out := key.AppendTo(nil)
	if len(out) > room {
		key.Context = nil
		out = key.AppendTo(out[:0])
	}
	return out, ntstatus.Success
}

// pipeWait says whether a pipe is there; none is ever busy.
//
// Source: [MS-FSCC 2.3.49]
func (r *request) pipeWait(in []byte) ntstatus.Status {
	if !r.tree.isPipe() {
		return ntstatus.NotSupported
	}
	w, err := smbwire.DecodePipeWait(in)
	if err != nil {
		return statusOf(err)
	}
	name, err := smbwire.DecodeUTF16(w.Name)
	if err != nil {
		return statusOf(err)
	}
	if _, ok := r.conn.srv.cfg.Pipes[strings.ToLower(name)]; !ok {
		return ntstatus.ObjectNameNotFound
	}
	return ntstatus.Success
}

// validateNegotiate repeats what was negotiated, now that it can be signed. If
// the client remembers something else, somebody has interfered, and the
// connection ends.
//
// Source: [MS-SMB2 3.3.5.15.12]
func (r *request) validateNegotiate(q *smbwire.IoctlRequest) ([]byte, ntstatus.Status) {
	c := r.conn
	v, err := smbwire.DecodeValidateNegotiateRequest(q.Input)
	resp := smbwire.ValidateNegotiateResponse{
		Capabilities: c.caps, GUID: c.srv.cfg.GUID, SecurityMode: c.mode, Dialect: c.dialect,
	}
	out := resp.AppendTo(nil)
	switch {
	case err != nil,
		c.dialect == smbwire.Dialect311,
		int(q.MaxOutputResponse) < len(out),
		!slices.Equal(v.Dialects, c.clientDialects),
		v.GUID != c.clientGUID,
		v.SecurityMode != c.clientMode,
		v.Capabilities != c.clientCaps:
		return nil, r.drop(fmt.Errorf("%w: %w", errProtocol, errValidate))
	}
	return out, ntstatus.Success
}
