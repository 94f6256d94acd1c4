package smbserver

import (
	"context"
	"net"
	"sync"
	"time"

	"lwio/internal/smb/smbwire"
)

// frameWriter writes messages to a connection, one at a time. It is safe for concurrent use.
//
// Source: [MS-SMB2 2.1]
type frameWriter struct {
	nc    net.Conn
	stall time.Duration // allowed for each MiB begun

	mu sync.Mutex
}

// handleWrite writes one message that consists of the given responses, each with its headroom.
// It frees them. Once ctx has ended it writes nothing: a response that is held back would
// otherwise come early, just before the connection ends.
func (w *frameWriter) write(ctx context.Context, parts []*buffer) error {
	total := 0
	for _, p := range parts {
		total += len(p.b) - headroom
	}
	head := parts[0].b
	smbwire.PutFrameHeader(head, total)
	err := w.writeAll(ctx, head, parts, total)
	for _, p := range parts {
		p.free()
	}
	return err
}

func (w *frameWriter) writeAll(ctx context.Context, head []byte, parts []*buffer, total int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := w.nc.SetWriteDeadline(time.Now().Add(transferTime(w.stall, total))); err != nil {
		return err
	}
	if len(parts) == 1 {
		_, err := w.nc.Write(head)
		return err
	}
	all := make(net.Buffers, len(parts))
	for i, p := range parts {
		all[i] = p.b[headroom:]
	}
	all[0] = head
	_, err := all.WriteTo(w.nc)
	return err
}

// transferTime returns how long n bytes may take: one unit for each MiB begun.
func transferTime(unit time.Duration, n int) time.Duration {
	return unit * time.Duration(n>>20+1)
}
