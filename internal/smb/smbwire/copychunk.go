package smbwire

const (
	copyChunkFixed = 32
	copyChunkSize  = 24
	// CopyChunkResponseSize is the length of a CopyChunkResponse, in bytes.
	CopyChunkResponseSize = 12
)

// CopyChunkRequest is the input of FSCTL_SRV_COPYCHUNK and FSCTL_SRV_COPYCHUNK_WRITE: ranges of the
// file with the resume key SourceKey are copied to the file of the IOCTL.
//
// Source: [MS-SMB2 2.2.31.1]
type CopyChunkRequest struct {
	SourceKey [24]byte
	Chunks    []CopyChunk
}

// CopyChunk is one range.
//
// Source: [MS-SMB2 2.2.31.1.1]
type CopyChunk struct {
	SourceOffset, TargetOffset uint64
	Length                     uint32
}

// AppendTo appends the input of the IOCTL.
func (r *CopyChunkRequest) AppendTo(b []byte) []byte {
	b = append(b, r.SourceKey[:]...)
	b = le.AppendUint32(b, uint32(len(r.Chunks)))
	b = le.AppendUint32(b, 0)
	for _, c := range r.Chunks {
		b = le.AppendUint64(b, c.SourceOffset)
		b = le.AppendUint64(b, c.TargetOffset)
		b = le.AppendUint32(b, c.Length)
		b = le.AppendUint32(b, 0)
	}
	return b
}

// DecodeCopyChunkRequest decodes the input of the IOCTL.
func DecodeCopyChunkRequest(b []byte) (CopyChunkRequest, error) {
	const name = "COPYCHUNK request"
	if len(b) < copyChunkFixed {
		return CopyChunkRequest{}, fault(name, "", ErrShort)
	}
	n := le.Uint32(b[24:])
	if uint64(len(b)) < copyChunkFixed+uint64(n)*copyChunkSize {
		return CopyChunkRequest{}, fault(name, "ChunkCount", ErrShort)
	}
	r := CopyChunkRequest{SourceKey: [24]byte(b[:24]), Chunks: make([]CopyChunk, n)}
	for i := range r.Chunks {
		c := b[copyChunkFixed+i*copyChunkSize:]
		r.Chunks[i] = CopyChunk{SourceOffset: le.Uint64(c), TargetOffset: le.Uint64(c[8:]), Length: le.Uint32(c[16:])}
	}
	return r, nil
}

// CopyChunkResponse is the output of the IOCTL: the copied chunks and bytes, or with INVALID_PARAMETER the limits
// of the server.
//
// Source: [MS-SMB2 2.2.32.1]
type CopyChunkResponse struct {
	Chunks     uint32
	ChunkBytes uint32
	TotalBytes uint32
}

// AppendTo appends the output of the IOCTL.
func (r *CopyChunkResponse) AppendTo(b []byte) []byte {
	b = le.AppendUint32(b, r.Chunks)
	b = le.AppendUint32(b, r.ChunkBytes)
	return le.AppendUint32(b, r.TotalBytes)
}
