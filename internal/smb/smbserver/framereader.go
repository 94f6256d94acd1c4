package smbserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"lwio/internal/account"
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbbuf"
	"lwio/internal/smb/smbwire"
)

// errFrame reports bytes that are not the transport's header of an allowed message.
var errFrame = errors.New("not an SMB message, or longer than the limit")

// readAhead is the number of bytes of small messages that one system call may read.
const readAhead = 4 << 10

// errDrained reports that the connection is drained.
var errDrained = errors.New("the server shuts down and reads no more messages")

// frameReader reads messages from a connection. It is used by one goroutine at a time,
// except for stop.
//
// Source: [MS-SMB2 2.1]
type frameReader struct {
	nc     net.Conn
	r      *bufio.Reader
	bufs   *smbbuf.Pool
	memory *account.Account
	stall  time.Duration // allowed for each MiB begun
	timed  bool          // a deadline is set

	mu      sync.Mutex
	within  bool // a message has begun
	stopped bool
}

func newFrameReader(nc net.Conn, bufs *smbbuf.Pool, memory *account.Account, stall time.Duration) *frameReader {
	return &frameReader{nc: nc, r: bufio.NewReaderSize(nc, readAhead), bufs: bufs, memory: memory, stall: stall}
}

// stop makes next return errDrained, after the message that has begun.
func (f *frameReader) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	if !f.within {
		f.nc.SetReadDeadline(time.Unix(1, 0)) // wakes next; on a closed connection next is awake
	}
}

// pause begins the time between messages, which has no limit.
func (f *frameReader) pause() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.within = false
	if f.stopped {
		return errDrained
	}
	if !f.timed || f.r.Buffered() > 0 {
		return nil
	}
	f.timed = false
	return f.nc.SetReadDeadline(time.Time{})
}

// resume ends the time between messages. err is the result of the wait.
func (f *frameReader) resume(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return errDrained
	}
	f.within = err == nil
	return err
}

// next reads one message of at most limit bytes. The wait for its first byte has no limit;
// the other bytes must follow in time. A message beyond the allowance of the connection first
// waits for memory of user. most is the number of requests for which the message is charged. The
// caller frees the result.
func (f *frameReader) next(ctx context.Context, limit int, user string) (buf *smbbuf.Buffer, most int, err error) {
	n, err := f.length(limit)
	if err != nil {
		return nil, 0, err
	}
	head := min(n, smbwire.HeaderSize)
	if err := f.expect(head); err != nil {
		return nil, 0, err
	}
	begin, err := f.r.Peek(head)
	if err != nil {
		return nil, 0, unexpected(err)
	}
	most = min(smbwire.MostElements(begin, n), maxCompound)
	if buf, err = f.buffer(ctx, n, most, user); err != nil {
		return nil, 0, err
	}
	if err = f.expect(n); err == nil {
		_, err = io.ReadFull(f.r, buf.B)
	}
	if err != nil {
		buf.Free()
		return nil, 0, unexpected(err)
	}
	return buf, most, nil
}

// length waits for a message of at most limit bytes, and returns its length.
func (f *frameReader) length(limit int) (int, error) {
	if err := f.pause(); err != nil {
		return 0, err
	}
	_, err := f.r.Peek(1)
	if err := f.resume(err); err != nil {
		return 0, err
	}
	if err := f.expect(smbwire.FrameHeaderSize); err != nil {
		return 0, err
	}
	head, err := f.r.Peek(smbwire.FrameHeaderSize)
	if err != nil {
		return 0, unexpected(err)
	}
	n, err := smbwire.DecodeFrameHeader(head)
	if err != nil || n > limit {
		return 0, fmt.Errorf("transport header %x, limit %d bytes: %w", head, limit, errFrame)
	}
	_, err = f.r.Discard(smbwire.FrameHeaderSize)
	return n, err
}

// buffer returns the memory for a message, with a capacity of smbauth.TagSize bytes more, to
// decrypt it in place. The goroutine that serves the message is charged too, and the tables of up to
// most requests.
func (f *frameReader) buffer(ctx context.Context, n, most int, user string) (*smbbuf.Buffer, error) {
	size := smbbuf.Size(n+smbauth.TagSize) + goroutineMemory + most*requestMemory
	charge, err := f.memory.Charge(ctx, user, int64(size), account.First)
	if err != nil {
		return nil, err
	}
	buf := f.bufs.Get(n + smbauth.TagSize)
	buf.B, buf.Charge = buf.B[:n], charge
	return buf, nil
}

// expect sets a deadline for n more bytes, unless they have arrived already.
func (f *frameReader) expect(n int) error {
	if f.r.Buffered() >= n {
		return nil
	}
	f.timed = true
	return f.nc.SetReadDeadline(time.Now().Add(transferTime(f.stall, n)))
}

// unexpected turns the end of the stream inside a message into io.ErrUnexpectedEOF.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
