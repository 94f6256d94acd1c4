package smbserver

import (
	"context"
	"math"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/vfs"
)

// close ends an open, and then answers.
//
// Source: [MS-SMB2 3.3.5.10], [OP-58b]
func (r *request) close() ntstatus.Status {
	q, err := smbwire.DecodeCloseRequest(r.in())
	if err != nil {
		return statusOf(err)
	}
	o, st := r.open(q.FileID)
	if st != ntstatus.Success {
		return st
	}
	var resp smbwire.CloseResponse
	if q.Flags&smbwire.ClosePostQueryAttributes != 0 && o.file != nil {
		if info, err := o.file.Stat(); err == nil {
			resp = smbwire.CloseResponse{
				Flags: smbwire.ClosePostQueryAttributes, FileTimes: fileTimes(&info),
				AllocationSize: uint64(info.AllocationSize), EndOfFile: uint64(info.Size),
				FileAttributes: attributes(&info),
			}
		}
	}
	if !r.session.remove(o) {
		return ntstatus.FileClosed
	}
	if err := o.close(); err != nil {
		return statusOf(err)
	}
	r.set(resp.AppendTo(r.body(64)))
	return ntstatus.Success
}

// flush puts what was written on stable storage.
//
// Source: [MS-SMB2 3.3.5.11]
func (r *request) flush() ntstatus.Status {
	q, err := smbwire.DecodeFlushRequest(r.in())
	if err != nil {
		return statusOf(err)
	}
	o, st := r.open(q.FileID)
	if st != ntstatus.Success {
		return st
	}
	if o.file != nil {
		if err := o.file.Sync(); err != nil {
			return statusOf(err)
		}
	}
	return r.empty()
}

// read reads straight into the place that the answer is sent from.
//
// Source: [MS-SMB2 3.3.5.12], [OP-92a]
func (r *request) read() ntstatus.Status {
	q, err := smbwire.DecodeReadRequest(r.in())
	if err != nil {
		return statusOf(err)
	}
	o, st := r.open(q.FileID)
	switch {
	case st != ntstatus.Success:
		return st
	case q.Length > r.conn.maxTransfer || !r.paid(0, q.Length) || q.Channel != 0:
		return ntstatus.InvalidParameter
	case o.pipe != nil:
		return r.readPipe(o.pipe, &q)
	case q.Offset > math.MaxInt64:
		return ntstatus.InvalidParameter
	}
	if st := r.slow(0, int(q.Length)); st != ntstatus.Success {
		return st
	}
	const fixed = smbwire.ReadResponseFixed
	b, st := r.longBody(fixed + int(q.Length))
	if st != ntstatus.Success {
		return st
	}
	if err := o.file.Acquire(); err != nil {
		return statusOf(err)
	}
	defer o.file.Release()
	p := b[bodyOffset : bodyOffset+fixed+int(q.Length)]
	n, err := o.file.ReadAt(p[fixed:], int64(q.Offset))
	switch {
	case err != nil:
		return statusOf(err)
	case n < int(q.MinimumCount):
		return ntstatus.EndOfFile
	}
	r.conn.srv.stats.reads.Add(1)
	r.conn.srv.stats.readBytes.Add(uint64(n))
	var resp smbwire.ReadResponse
	b = resp.AppendFixed(b, n)
	r.set(b[:len(b)+n])
	return ntstatus.Success
}

func (r *request) readPipe(p *pipe, q *smbwire.ReadRequest) ntstatus.Status {
	data, st := p.read(int(q.Length))
	if !carriesBody(st) {
		return st
	}
	resp := smbwire.ReadResponse{Data: data}
	r.set(resp.AppendTo(r.body(smbwire.ReadResponseFixed + len(data))))
	return st
}

// write writes from the received message.
//
// Source: [MS-SMB2 3.3.5.13]
func (r *request) write() ntstatus.Status {
	q, err := smbwire.DecodeWriteRequest(r.in())
	if err != nil {
		return statusOf(err)
	}
	n := uint32(len(q.Data))
	o, st := r.open(q.FileID)
	switch {
	case st != ntstatus.Success:
		return st
	case n > r.conn.maxTransfer || !r.paid(n, 0) || q.Channel != 0:
		return ntstatus.InvalidParameter
	case o.pipe != nil:
		st = r.waiting(func(ctx context.Context) ntstatus.Status {
			return o.pipe.write(ctx, q.Data, int(r.conn.maxTransfer))
		})
	case q.Offset > math.MaxInt64:
		return ntstatus.InvalidParameter
	default:
		if st = r.slow(0, len(q.Data)); st != ntstatus.Success {
			return st
		}
		if st = writeFile(o.file, &q); st == ntstatus.Success {
			r.conn.srv.stats.writes.Add(1)
			r.conn.srv.stats.writtenBytes.Add(uint64(n))
		}
	}
	if st != ntstatus.Success {
		return st
	}
	resp := smbwire.WriteResponse{Count: n}
	r.set(resp.AppendTo(r.body(32)))
	return ntstatus.Success
}

// writeFile writes, durably if the request asks for it.
func writeFile(f *vfs.Open, q *smbwire.WriteRequest) ntstatus.Status {
	if err := f.Acquire(); err != nil {
		return statusOf(err)
	}
	defer f.Release()
	if _, err := f.WriteAt(q.Data, int64(q.Offset)); err != nil {
		return statusOf(err)
	}
	if q.Flags&smbwire.WriteFlagThrough != 0 {
		if err := f.Sync(); err != nil {
			return statusOf(err)
		}
	}
	return ntstatus.Success
}

// unsupported answers what is recognised and not served: change notification,
// which the file system below does not offer, and the acknowledgement of an oplock
// that was never granted.
//
// Source: [MS-SMB2 3.3.5.19], [MS-SMB2 3.3.5.22.1]
func (r *request) unsupported() ntstatus.Status {
	var id smbwire.FileID
	st := ntstatus.NotSupported
	switch r.hdr.Command {
	case smbwire.CommandChangeNotify:
		q, err := smbwire.DecodeChangeNotifyRequest(r.in())
		if err != nil {
			return statusOf(err)
		}
		id = q.FileID
	default:
		if _, err := smbwire.DecodeLeaseAck(r.in()); err == nil {
			return ntstatus.ObjectNameNotFound
		}
		q, err := smbwire.DecodeOplockBreak(r.in())
		if err != nil {
			return statusOf(err)
		}
		id, st = q.FileID, ntstatus.InvalidOplockProtocol
	}
	if _, bad := r.open(id); bad != ntstatus.Success {
		return bad
	}
	return st
}
