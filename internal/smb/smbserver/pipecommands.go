package smbserver

import (
	"context"
	"strings"

	"lwio/internal/account"
	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/vfs"
)

// pipeAllocation is the allocation size of a pipe, in bytes, as other servers report it.
const pipeAllocation = 4096

// maxPipeResult bounds the part of a result that a client takes at once, in bytes.
const maxPipeResult = 64 << 10

// createPipe serves CREATE of a named pipe.
//
// Source: [MS-SMB2 3.3.5.9], [OP-34]
func createPipe(r *request, name string) ntstatus.Status {
	name = strings.TrimPrefix(name, `\`)
	serve := r.conn.srv.pipeService(name)
	if serve == nil {
		return ntstatus.ObjectNameNotFound
	}
	o := &open{tree: r.tree, pipe: newPipe(r.session, name, serve)}
	var ok bool
	if o.pipe.memory, ok = r.conn.memory.TryCharge(r.session.user, handleMemory, account.Last); !ok {
		o.pipe.close()
		return ntstatus.InsufficientResources
	}
	if st := r.session.add(o); st != ntstatus.Success {
		o.pipe.memory.Return()
		o.pipe.close()
		return st
	}
	created(r, o, &smbwire.CreateResponse{
		CreateAction: uint32(vfs.Opened), FileAttributes: vfs.AttrNormal, AllocationSize: pipeAllocation,
	}, 96)
	return ntstatus.Success
}

// readPipe serves READ of a pipe.
func readPipe(r *request, p *pipe, q *smbwire.ReadRequest) ntstatus.Status {
	n := min(int(q.Length), maxPipeResult)
	if !r.reserve(smbwire.ReadResponseFixed + n) {
		return ntstatus.ConnectionDisconnected
	}
	data, st := p.read(n)
	if !r.resp.carriesBody(st) {
		return st
	}
	resp := smbwire.ReadResponse{Data: data}
	r.resp.set(resp.AppendTo(r.resp.begin(smbwire.ReadResponseFixed + len(data))))
	return st
}

// writePipe serves WRITE to a pipe.
func writePipe(r *request, p *pipe, data []byte) ntstatus.Status {
	return r.waiting(func(ctx context.Context) ntstatus.Status {
		return p.write(ctx, data, maxPipeResult)
	})
}

// transceive serves FSCTL_PIPE_TRANSCEIVE: a message to a pipe, and its result.
//
// Source: [MS-SMB2 3.3.5.15.3]
func transceive(r *request, p *pipe, q *smbwire.IoctlRequest) (out []byte, st ntstatus.Status) {
	st = r.waiting(func(ctx context.Context) (st ntstatus.Status) {
		out, st = p.transact(ctx, q.Input, min(int(q.MaxOutputResponse), maxPipeResult))
		return st
	})
	return out, st
}

// pipeWait serves FSCTL_PIPE_WAIT: it reports whether a pipe exists; none is ever busy.
//
// Source: [MS-FSCC 2.3.49]
func pipeWait(r *request, in []byte) ntstatus.Status {
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
	if r.conn.srv.pipeService(name) == nil {
		return ntstatus.ObjectNameNotFound
	}
	return ntstatus.Success
}

// queryPipe returns the information about a named pipe.
//
// Source: [MS-FSCC 2.4.36], [MS-FSCC 2.4.47]
func queryPipe(class smbwire.FileClass) (information, ntstatus.Status) {
	switch class {
	case smbwire.ClassStandard:
		i := smbwire.StandardInfo{AllocationSize: pipeAllocation, NumberOfLinks: 1, DeletePending: true}
		return whole(i.AppendTo(nil))
	case smbwire.ClassPipe:
		return whole(smbwire.Uint64Info(1).AppendTo(nil)) // message mode, blocking
	}
	return information{}, ntstatus.InvalidParameter
}
