package smbclient

import (
	"context"
	"fmt"
	"slices"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// resumeKeyRoom is the size of the buffer for a resume key, in bytes: more than plain
// clients offer, so that an LWIO server names its pipe. [OP-33]
const resumeKeyRoom = 1 << 10

// ioctlRequest returns the request of a control operation.
func ioctlRequest(treeID uint32, q *smbwire.IoctlRequest) request {
	return request{
		command: smbwire.CommandIoctl, body: q, treeID: treeID, payload: max(len(q.Input), int(q.MaxOutputResponse)),
	}
}

// resumeKeyRequest returns the body that asks for the resume key of an open.
func resumeKeyRequest(id smbwire.FileID) *smbwire.IoctlRequest {
	return &smbwire.IoctlRequest{
		CtlCode: smbwire.FsctlSrvRequestResumeKey, FileID: id, MaxOutputResponse: resumeKeyRoom, Flags: smbwire.IoctlIsFSCTL,
	}
}

// ioctlOutput returns a copy of the output in a response.
func ioctlOutput(r *response) ([]byte, error) {
	resp, err := smbwire.DecodeIoctlResponse(r.body())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return slices.Clone(resp.Output), nil
}

// ioctl executes a control operation. A truncated output comes with BufferOverflow.
func (t *Tree) ioctl(ctx context.Context, id smbwire.FileID, code uint32, in []byte, maxOut int) ([]byte, error) {
	if len(in) > t.s.neg.maxTransact || maxOut < 0 || maxOut > t.s.neg.maxTransact {
		return nil, ntstatus.InvalidParameter
	}
	q := &smbwire.IoctlRequest{
		CtlCode: code, FileID: id, Input: in, MaxOutputResponse: uint32(maxOut), Flags: smbwire.IoctlIsFSCTL,
	}
	r, err := t.s.conn.call(ctx, ioctlRequest(t.id, q), ntstatus.BufferOverflow)
	if err != nil {
		return nil, err
	}
	defer t.s.conn.free(r)
	out, err := ioctlOutput(r)
	if err != nil {
		return nil, err
	}
	if len(out) > maxOut {
		return nil, fmt.Errorf("%w: %d bytes of output, %d were asked for", ErrProtocol, len(out), maxOut)
	}
	return out, r.Status.Err()
}

// ioctl executes a control operation (FSCTL) on the file. in is not kept; the result
// belongs to the caller and has at most maxOut bytes. A longer one is truncated and comes
// with an error that is ntstatus.BufferOverflow.
//
// Source: [MS-SMB2 3.2.4.20]
func (f *File) ioctl(ctx context.Context, code uint32, in []byte, maxOut int) ([]byte, error) {
	if f.closed.Load() {
		return nil, ntstatus.FileClosed
	}
	return f.t.ioctl(ctx, f.id, code, in, maxOut)
}

// ResumeKey returns the name of this open in other protocols, as the server sent it: a key
// of 24 bytes, a 32-bit length, and a context, which smbwire.DecodeResumeKey decodes. A
// CreateRequest with ResumeKey saves the round trip. The result belongs to the caller.
//
// Errors: ErrProtocol for an output too short for a key; ntstatus.NotSupported and others
// if the server has none.
//
// Source: [MS-SMB2 2.2.32.3], [LWIO §Discovery], [OP-31], [OP-33]
func (f *File) ResumeKey(ctx context.Context) ([]byte, error) {
	f.keyMu.Lock()
	defer f.keyMu.Unlock()
	if f.key == nil {
		key, err := f.ioctl(ctx, smbwire.FsctlSrvRequestResumeKey, nil, resumeKeyRoom)
		if err != nil {
			return nil, timely(err)
		}
		f.key = key
	}
	if _, err := smbwire.DecodeResumeKey(f.key); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return slices.Clone(f.key), nil
}
