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

	"lwio/internal/smb/smbwire"
)

// errFrame says that what precedes a message is not the transport's header.
var errFrame = errors.New("not an SMB message, or a longer one than is allowed")

// readAhead is how much of small messages one system call may bring in.
const readAhead = 4 << 10

// errDrained says that no more messages are read.
var errDrained = errors.New("the server shuts down and reads no more messages")

// frames reads messages from a connection. It is used by one goroutine at a
// time, except for stop.
//
// Source: [MS-SMB2 2.1]
type frames struct {
	nc     net.Conn
	r      *bufio.Reader
	bufs   *buffers
	memory *budget
	stall  time.Duration
	timed  bool // a deadline is set

	mu      sync.Mutex
	within  bool // a message has begun
	stopped bool
}

func newFrames(nc net.Conn, bufs *buffers, memory *budget, stall time.Duration) *frames {
	return &frames{nc: nc, r: bufio.NewReaderSize(nc, readAhead), bufs: bufs, memory: memory, stall: stall}
}

// stop makes next give errDrained, once it has read the message that has begun.
func (f *frames) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	if !f.within {
		f.nc.SetReadDeadline(time.Unix(1, 0)) // wakes next; a closed connection is awake
	}
}

// rest is the time between messages. It may take as long as it likes.
func (f *frames) rest() error {
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

// begin ends the time between messages.
func (f *frames) begin(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return errDrained
	}
	f.within = err == nil
	return err
}

// next reads one message of at most limit bytes. The first byte may take as
// long as it likes, the rest must follow in time, once a long one has its part of the
// memory. It is user's, if that is known. The caller frees the result.
func (f *frames) next(ctx context.Context, limit int, user string) (*buffer, error) {
	if err := f.rest(); err != nil {
		return nil, err
	}
	_, err := f.r.Peek(1)
	if err := f.begin(err); err != nil {
		return nil, err
	}
	if err := f.await(headroom); err != nil {
		return nil, err
	}
	head, err := f.r.Peek(headroom)
	if err != nil {
		return nil, unexpected(err)
	}
	n, err := smbwire.DecodeFrameHeader(head)
	if err != nil || n > limit {
		return nil, fmt.Errorf("transport header %x, limit %d bytes: %w", head, limit, errFrame)
	}
	if _, err := f.r.Discard(headroom); err != nil {
		return nil, err
	}
	buf, err := f.buffer(ctx, n, user)
	if err != nil {
		return nil, err
	}
	if err = f.await(n); err == nil {
		_, err = io.ReadFull(f.r, buf.b)
	}
	if err != nil {
		buf.free()
		return nil, unexpected(err)
	}
	return buf, nil
}

// buffer is the memory for a message.
func (f *frames) buffer(ctx context.Context, n int, user string) (*buffer, error) {
	if n < longMessage || user == "" {
		return f.bufs.get(n), nil
	}
	if err := f.memory.take(ctx, user, n); err != nil {
		return nil, err
	}
	buf := f.bufs.get(n)
	buf.claim(f.memory, user, n)
	return buf, nil
}

// await sets a deadline for n more bytes, unless they have arrived already.
func (f *frames) await(n int) error {
	if f.r.Buffered() >= n {
		return nil
	}
	f.timed = true
	return f.nc.SetReadDeadline(time.Now().Add(allowance(f.stall, n)))
}

// allowance is how long n bytes may take: one unit for each MiB begun.
func allowance(unit time.Duration, n int) time.Duration {
	return unit * time.Duration(n>>20+1)
}

// unexpected turns an end in the middle of a message into what it is.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
