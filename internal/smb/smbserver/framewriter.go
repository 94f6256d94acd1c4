package smbserver

import (
	"context"
	"net"
	"sync"
	"time"

	"lwio/internal/smb/smbbuf"
	"lwio/internal/smb/smbwire"
)

// headroom is the room before every response, in bytes: for the transport's header, and for
// the header of an encrypted message.
const headroom = plainStart + smbwire.FrameHeaderSize

// plainStart is where the transport's header of a message that is not encrypted begins.
const plainStart = smbwire.TransformHeaderSize

// frameWriter writes messages to a connection, one at a time. It is safe for concurrent use.
//
// Source: [MS-SMB2 2.1]
type frameWriter struct {
	nc    net.Conn
	stall time.Duration // allowed for each MiB begun

	mu sync.Mutex
}

// write writes one message that consists of the given responses, each with its headroom,
// and frees them. After the end of ctx it writes nothing: a delayed response must not be
// sent early because the connection ends.
func (w *frameWriter) write(ctx context.Context, parts []*smbbuf.Buffer) error {
	total := 0
	for _, p := range parts {
		total += len(p.B) - headroom
	}
	head := parts[0].B[plainStart:]
	smbwire.PutFrameHeader(head, total)
	err := w.writeAll(ctx, head, parts, total)
	for _, p := range parts {
		p.Free()
	}
	return err
}

// writeEncrypted writes one encrypted message, and frees it. After the end of ctx it writes
// nothing.
func (w *frameWriter) writeEncrypted(ctx context.Context, msg *smbbuf.Buffer) error {
	defer msg.Free()
	total := len(msg.B) - smbwire.FrameHeaderSize
	smbwire.PutFrameHeader(msg.B, total)
	return w.writeAll(ctx, msg.B, nil, total)
}

// writeAll writes a message that begins with head, in place of the headroom of the first
// part. head is all of a message of one part, or of none.
func (w *frameWriter) writeAll(ctx context.Context, head []byte, parts []*smbbuf.Buffer, total int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := w.nc.SetWriteDeadline(time.Now().Add(transferTime(w.stall, total))); err != nil {
		return err
	}
	if len(parts) <= 1 {
		_, err := w.nc.Write(head)
		return err
	}
	all := make(net.Buffers, len(parts))
	for i, p := range parts {
		all[i] = p.B[headroom:]
	}
	all[0] = head
	_, err := all.WriteTo(w.nc)
	return err
}

// transferTime returns the time limit for n bytes: one unit for each MiB begun.
func transferTime(unit time.Duration, n int) time.Duration {
	return unit * time.Duration(n>>20+1)
}
