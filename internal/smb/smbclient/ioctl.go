package smbclient

import (
	"context"
	"fmt"
	"slices"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// resumeKeyRoom is the output that is offered for a resume key, in bytes: more
// than plain clients do, so that a server of LWIO names its pipe. [OP-33]
const resumeKeyRoom = 1 << 10

// ioctlPart makes the part of a control operation.
func ioctlPart(treeID uint32, q *smbwire.IoctlRequest) part {
	return part{
		command: smbwire.CommandIoctl, body: q, treeID: treeID, payload: max(len(q.Input), int(q.MaxOutputResponse)),
	}
}

func resumeKeyRequest(id smbwire.FileID) *smbwire.IoctlRequest {
	return &smbwire.IoctlRequest{
		CtlCode: smbwire.FsctlSrvRequestResumeKey, FileID: id, MaxOutputResponse: resumeKeyRoom, Flags: smbwire.IoctlIsFSCTL,
	}
}

// ioctlOutput copies the output out of an answer.
func ioctlOutput(r *response) ([]byte, error) {
	resp, err := smbwire.DecodeIoctlResponse(r.body())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return slices.Clone(resp.Output), nil
}

// ioctl does a control operation. The output comes with BufferOverflow if it was
// cut.
func (t *Tree) ioctl(ctx context.Context, id smbwire.FileID, code uint32, in []byte, maxOut int, fsctl bool) ([]byte, error) {
	if len(in) > t.MaxTransact() || maxOut < 0 || maxOut > t.MaxTransact() {
		return nil, ntstatus.InvalidParameter
	}
	q := &smbwire.IoctlRequest{CtlCode: code, FileID: id, Input: in, MaxOutputResponse: uint32(maxOut)}
	if fsctl {
		q.Flags = smbwire.IoctlIsFSCTL
	}
	r, err := t.s.conn.call(ctx, ioctlPart(t.id, q), ntstatus.BufferOverflow)
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

// Ioctl does a control operation (FSCTL) on the file. in is not kept; the result
// is the caller's, of at most maxOut bytes. If the server had more, it comes with
// an error that is ntstatus.BufferOverflow.
//
// Source: [MS-SMB2 3.2.4.20]
func (f *File) Ioctl(ctx context.Context, code uint32, in []byte, maxOut int) ([]byte, error) {
	out, err := f.ioctl(ctx, code, in, maxOut)
	return out, fail(fmt.Sprintf("ioctl %#08x", code), f.name, err)
}

func (f *File) ioctl(ctx context.Context, code uint32, in []byte, maxOut int) ([]byte, error) {
	if f.closed.Load() {
		return nil, ntstatus.FileClosed
	}
	return f.t.ioctl(ctx, f.id, code, in, maxOut, true)
}

// ResumeKey returns what names this open to other protocols, as the server sent
// it: a key of 24 bytes, a 32-bit length, and a context, which smbwire's
// DecodeResumeKey takes apart. If CreateRequest asked for it, no round trip is
// needed. The result is the caller's.
//
// Errors: ErrProtocol for an output too short for a key; ntstatus.NotSupported
// and others if the server has none.
//
// Source: [MS-SMB2 2.2.32.3], [LWIO §Discovery], [OP-31], [OP-33]
func (f *File) ResumeKey(ctx context.Context) ([]byte, error) {
	f.keyMu.Lock()
	defer f.keyMu.Unlock()
	if f.key == nil {
		key, err := f.ioctl(ctx, smbwire.FsctlSrvRequestResumeKey, nil, resumeKeyRoom)
		if err != nil {
			return nil, fail("resume key", f.name, err)
		}
		f.key = key
	}
	if _, err := smbwire.DecodeResumeKey(f.key); err != nil {
		return nil, fail("resume key", f.name, fmt.Errorf("%w: %w", ErrProtocol, err))
	}
	return slices.Clone(f.key), nil
}

// Transceive writes one message to a named pipe and reads one of at most maxOut
// bytes. in is not kept; the result is the caller's.
//
// Errors: as Ioctl.
//
// Source: [MS-FSCC 2.3.45], [OP-34]
func (f *File) Transceive(ctx context.Context, in []byte, maxOut int) ([]byte, error) {
	out, err := f.ioctl(ctx, smbwire.FsctlPipeTransceive, in, maxOut)
	return out, fail("transact", f.name, err)
}
