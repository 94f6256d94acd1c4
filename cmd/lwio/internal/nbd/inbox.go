package nbd

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"lwio/cmd/lwio/internal/nbd/nbdwire"
)

const (
	// inboxSize is the most that one read takes from a connection, in bytes.
	inboxSize = 64 << 10
	// directSize is the least rest of the data of a write that is read straight into its place, in bytes.
	directSize = 16 << 10
	// maxSkip bounds the data of a write that is skipped because the request is refused, in bytes.
	maxSkip = 2 * maxRequest
)

// inbox has the received bytes of a connection. It belongs to the leader.
type inbox struct {
	conn net.Conn
	raw  syscall.RawConn // for reads that do not block; nil for TLS

	buf  []byte
	r, w int // buf[r:w] is received and not used

	// partial is the write whose data is being received, if receiving is true.
	partial   operation
	receiving bool
	rest      []byte // the place of the data that is missing
	skip      int    // bytes of data without a place

	polled  []byte // of the read in poll
	pollN   int
	pollErr error
	poll    func(fd uintptr) bool
}

// newInbox returns the inbox of a connection.
func newInbox(c net.Conn) inbox {
	in := inbox{conn: c, buf: make([]byte, inboxSize)}
	if s, ok := c.(syscall.Conn); ok && canPoll {
		if raw, err := s.SyscallConn(); err == nil {
			in.raw = raw
		}
	}
	return in
}

// request returns the next request if it is there.
func (in *inbox) request() (nbdwire.Request, bool, error) {
	if in.w-in.r < nbdwire.RequestSize {
		return nbdwire.Request{}, false, nil
	}
	r, err := nbdwire.DecodeRequest(in.buf[in.r:][:nbdwire.RequestSize])
	return r, err == nil, err
}

// takeRequest removes the request that request returned.
func (in *inbox) takeRequest() { in.r += nbdwire.RequestSize }

// expect makes the inbox receive the data of a write: into its block, or into no place.
func (in *inbox) expect(o operation) {
	in.partial, in.receiving = o, true
	in.rest, in.skip = o.block.p, 0
	if o.block.of == nil {
		in.skip = int(o.request.Length)
	}
}

// take moves received data to the write that is being received, and reports whether it is complete.
func (in *inbox) take() bool {
	n := copy(in.rest, in.buf[in.r:in.w])
	in.rest, in.r = in.rest[n:], in.r+n
	n = min(in.skip, in.w-in.r)
	in.skip, in.r = in.skip-n, in.r+n
	if len(in.rest) > 0 || in.skip > 0 {
		return false
	}
	in.receiving = false
	return true
}

// fill reads from the connection: with block it waits for at least one byte. It returns false if nothing was there.
// more reports that there may be more to read at once.
//
// Errors: io.EOF; the error of the connection.
func (in *inbox) fill(block bool) (some, more bool, err error) {
	direct := in.receiving && in.r == in.w && len(in.rest) >= directSize
	p := in.rest
	if !direct {
		copy(in.buf, in.buf[in.r:in.w])
		in.r, in.w = 0, in.w-in.r
		p = in.buf[in.w:]
	}
	n := 0
	if block {
		n, err = in.conn.Read(p)
	} else {
		n, err = in.readPoll(p)
	}
	if direct {
		in.rest = in.rest[n:]
	} else {
		in.w += n
	}
	if n > 0 {
		return true, n == len(p), nil
	}
	return false, false, err
}

// readPoll reads the bytes that have arrived. It returns 0 without an error if there are none.
func (in *inbox) readPoll(p []byte) (int, error) {
	if in.raw == nil {
		return 0, nil
	}
	if in.poll == nil {
		in.poll = func(fd uintptr) bool {
			in.pollN, in.pollErr = pollRead(fd, in.polled)
			return true
		}
	}
	in.polled = p
	err := in.raw.Read(in.poll)
	in.polled = nil
	switch {
	case err != nil:
		return 0, err
	case in.pollErr != nil:
		return 0, in.pollErr
	case in.pollN < 0:
		return 0, nil
	case in.pollN == 0:
		return 0, io.EOF
	}
	return in.pollN, nil
}

// isEnd reports whether an error of fill is a regular end: the connection ends between two requests.
func (in *inbox) isEnd(err error) bool {
	return errors.Is(err, io.EOF) && !in.receiving && in.r == in.w
}

// isWoken reports whether an error of fill is the end of the time limit that drain sets.
func isWoken(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
