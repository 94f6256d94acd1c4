package smbserver

import (
	"math"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// handleClose serves CLOSE; the response is sent once the open is closed.
//
// Source: [MS-SMB2 3.3.5.10], [OP-58b]
func handleClose(r *request, q smbwire.CloseRequest) ntstatus.Status {
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
				FileAttributes: info.ReportedAttributes(),
			}
		}
	}
	if !r.session.handles.remove(o) {
		return ntstatus.FileClosed
	}
	if err := o.close(); err != nil {
		return statusOf(err)
	}
	r.resp.set(resp.AppendTo(r.resp.begin(64)))
	return ntstatus.Success
}

// handleFlush serves FLUSH: the written data of the file are durable afterwards.
//
// Source: [MS-SMB2 3.3.5.11]
func handleFlush(r *request, q smbwire.FlushRequest) ntstatus.Status {
	o, st := r.open(q.FileID)
	if st != ntstatus.Success {
		return st
	}
	if o.file != nil {
		if st := r.conn.srv.lineages.kept.flush(o, r.session); st != ntstatus.Success {
			return st
		}
	}
	return r.resp.empty()
}

// handleRead serves READ. The file is read into the buffer from which the response is sent.
//
// Source: [MS-SMB2 3.3.5.12], [OP-92a]
func handleRead(r *request, q smbwire.ReadRequest) ntstatus.Status {
	o, st := r.open(q.FileID)
	switch {
	case st != ntstatus.Success:
		return st
	case !r.allows(0, q.Length) || q.Channel != 0:
		return ntstatus.InvalidParameter
	case o.pipe != nil:
		return readPipe(r, o.pipe, &q)
	case q.Offset > math.MaxInt64:
		return ntstatus.InvalidParameter
	}
	if st := r.throttle(0, int(q.Length)); st != ntstatus.Success {
		return st
	}
	const fixed = smbwire.ReadResponseFixed
	if !r.reserve(fixed + int(q.Length)) {
		return ntstatus.ConnectionDisconnected
	}
	b := r.resp.begin(fixed + int(q.Length))
	if err := o.file.Acquire(); err != nil {
		return statusOf(err)
	}
	defer o.file.Release()
	p := b[bodyOffset : bodyOffset+fixed+int(q.Length)]
	n, err := o.file.ReadAt(p[fixed:], int64(q.Offset))
	switch {
	case err != nil:
		return statusOf(err)
	case !r.session.valid():
		return ntstatus.UserSessionDeleted // the user may have been removed while the read waited for the disk
	case n < int(q.MinimumCount):
		return ntstatus.EndOfFile
	}
	o.position.Store(q.Offset + uint64(n))
	r.conn.srv.stats.reads.Add(1)
	r.conn.srv.stats.readBytes.Add(uint64(n))
	var resp smbwire.ReadResponse
	b = resp.AppendFixed(b, n)
	r.resp.set(b[:len(b)+n])
	return ntstatus.Success
}

// handleWrite serves WRITE, from the received message.
//
// Source: [MS-SMB2 3.3.5.13]
func handleWrite(r *request, q smbwire.WriteRequest) ntstatus.Status {
	n := uint32(len(q.Data))
	o, st := r.open(q.FileID)
	switch {
	case st != ntstatus.Success:
		return st
	case !r.allows(n, 0) || q.Channel != 0:
		return ntstatus.InvalidParameter
	case o.pipe != nil:
		st = writePipe(r, o.pipe, q.Data)
	case q.Offset > math.MaxInt64:
		return ntstatus.InvalidParameter
	default:
		if st = r.throttle(0, len(q.Data)); st != ntstatus.Success {
			return st
		}
		if st = writeFile(r, o, &q); st == ntstatus.Success {
			r.conn.srv.stats.writes.Add(1)
			r.conn.srv.stats.writtenBytes.Add(uint64(n))
		}
	}
	if st != ntstatus.Success {
		return st
	}
	resp := smbwire.WriteResponse{Count: n}
	r.resp.set(resp.AppendTo(r.resp.begin(32)))
	return ntstatus.Success
}

// writeFile writes to a file, durably if the request asks for that.
func writeFile(r *request, o *open, q *smbwire.WriteRequest) ntstatus.Status {
	if err := o.file.Acquire(); err != nil {
		return statusOf(err)
	}
	defer o.file.Release()
	if _, err := o.file.WriteAt(q.Data, int64(q.Offset)); err != nil {
		return statusOf(err)
	}
	if q.Flags&smbwire.WriteFlagThrough != 0 {
		return r.conn.srv.lineages.kept.flush(o, r.session)
	}
	return ntstatus.Success
}
