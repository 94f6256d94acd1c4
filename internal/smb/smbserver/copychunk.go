package smbserver

import (
	"context"
	"errors"
	"math"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
	"lwio/vfs"
)

// Limits of one FSCTL_SRV_COPYCHUNK. A chunk is bounded by Config.MaxTransferSize too.
//
// Source: [MS-SMB2 3.3.3]
const (
	maxCopyChunks     = 256
	maxCopyChunkBytes = 1 << 20
	maxCopyBytes      = 16 << 20
)

// copyChunks serves FSCTL_SRV_COPYCHUNK and FSCTL_SRV_COPYCHUNK_WRITE: it copies ranges of a file that
// the session has open to the file o. A copy that takes long has an interim response, and ends with
// CANCEL. A chunk is read into the memory of the response.
//
// Source: [MS-SMB2 3.3.5.15.6]
func copyChunks(r *request, o *open, q *smbwire.IoctlRequest) ([]byte, ntstatus.Status) {
	if o.file == nil {
		return nil, ntstatus.InvalidDeviceRequest
	}
	in, err := smbwire.DecodeCopyChunkRequest(q.Input)
	if err != nil || q.MaxOutputResponse < smbwire.CopyChunkResponseSize {
		return nil, ntstatus.InvalidParameter
	}
	source, err := r.conn.srv.cfg.FS.ByResumeKey(in.SourceKey, r.session.lineage)
	if err != nil {
		return nil, statusOf(err)
	}
	need := vfs.WriteData
	if q.CtlCode == smbwire.FsctlSrvCopyChunk {
		need |= vfs.ReadData
	}
	switch {
	case source.Granted()&(vfs.ReadData|vfs.Execute) == 0, !o.file.Granted().Has(need),
		source.Share().RequireEncryption && r.encrypted == nil:
		return nil, ntstatus.AccessDenied
	case source.IsDir() || o.file.IsDir():
		return nil, ntstatus.InvalidDeviceRequest
	}
	c := chunkCopy{source: source, target: o.file, limits: smbwire.CopyChunkResponse{
		Chunks: maxCopyChunks, ChunkBytes: uint32(min(maxCopyChunkBytes, r.conn.srv.cfg.MaxTransferSize)), TotalBytes: maxCopyBytes,
	}}
	r.resp.whole = true // failures too have an output
	largest, total, ok := c.measure(in.Chunks)
	if !ok {
		return c.limits.AppendTo(nil), ntstatus.InvalidParameter
	}
	if st := r.throttle(0, total); st != ntstatus.Success {
		return c.done.AppendTo(nil), st
	}
	if !r.reserve(ioctlFixed + largest) {
		return nil, ntstatus.ConnectionDisconnected
	}
	c.buf = r.resp.begin(ioctlFixed + largest)[bodyOffset : bodyOffset+largest]
	st := r.waiting(func(ctx context.Context) ntstatus.Status { return c.run(ctx, in.Chunks) })
	r.conn.srv.stats.copied(&c.done)
	return c.done.AppendTo(nil), st
}

// chunkCopy is a copy in progress.
type chunkCopy struct {
	source, target *vfs.Open
	buf            []byte // of the largest chunk
	limits, done   smbwire.CopyChunkResponse
}

// measure returns the bytes of the largest chunk and of all. ok is false if they are beyond a limit.
func (c *chunkCopy) measure(chunks []smbwire.CopyChunk) (largest, total int, ok bool) {
	if len(chunks) > int(c.limits.Chunks) {
		return 0, 0, false
	}
	for _, x := range chunks {
		if x.Length == 0 || x.Length > c.limits.ChunkBytes {
			return 0, 0, false
		}
		largest, total = max(largest, int(x.Length)), total+int(x.Length)
	}
	return largest, total, total <= int(c.limits.TotalBytes)
}

// run copies one chunk after the other, up to the first that fails. Each chunk is read before it is
// written: the ranges of a chunk may overlap.
func (c *chunkCopy) run(ctx context.Context, chunks []smbwire.CopyChunk) ntstatus.Status {
	for _, f := range []*vfs.Open{c.source, c.target} {
		if err := f.Acquire(); err != nil {
			return statusOf(err)
		}
		defer f.Release()
	}
	for _, x := range chunks {
		if ctx.Err() != nil {
			return ntstatus.Cancelled
		}
		n, st := c.copy(x)
		c.done.TotalBytes += n
		if st != ntstatus.Success {
			c.done.ChunkBytes = n
			return st
		}
		c.done.Chunks++
	}
	return ntstatus.Success
}

// copy copies a chunk and returns the written bytes. Nothing is written if the chunk is not wholly in
// the source.
func (c *chunkCopy) copy(x smbwire.CopyChunk) (uint32, ntstatus.Status) {
	if x.SourceOffset > math.MaxInt64 || x.TargetOffset > math.MaxInt64 {
		return 0, ntstatus.InvalidParameter
	}
	p := c.buf[:x.Length]
	n, err := c.source.ReadAt(p, int64(x.SourceOffset))
	switch {
	case err == nil && n < len(p), errors.Is(err, ntstatus.EndOfFile):
		return 0, ntstatus.InvalidViewSize
	case err != nil:
		return 0, statusOf(err)
	}
	n, err = c.target.WriteAt(p, int64(x.TargetOffset))
	return uint32(n), statusOf(err)
}
