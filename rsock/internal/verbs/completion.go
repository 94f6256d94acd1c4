package verbs

import (
	"context"
	"errors"

	"lwio/rdma"
)

// pollBatch is the most completions of one Poll.
const pollBatch = 16

// Poll handles the completions that are there: it gives each Overlapped its outcome and
// calls its Complete function, in the order of the completions, and returns their number. It
// never blocks. Of concurrent calls one does the work, and all others return 0.
//
// Errors: ENOTSOCK once the socket is closed, ENETDOWN if the provider failed. The end of
// the connection is no error of Poll: the requests end with errors, and Err returns the
// reason.
//
// Source: [WSD §5.6]
func (s *Socket) Poll() (int, error) {
	if !s.polling.TryLock() {
		return 0, nil
	}
	defer s.polling.Unlock()
	return s.pollLocked()
}

func (s *Socket) pollLocked() (int, error) {
	late := 0
	if s.late.Load() {
		late = s.finishLate()
	}
	n, err := s.cq.Poll(s.results[:])
	for i := range n {
		s.complete(&s.results[i])
	}
	if err != nil {
		return late + n, failed("poll", "", s.closedOr(err))
	}
	return late + n, nil
}

// closedOr returns err, or a status for ENOTSOCK if the socket is closed.
func (s *Socket) closedOr(err error) error {
	if errors.Is(err, rdma.StatusBufferOverflow) {
		return &rdma.Error{Op: "completion queue", Status: rdma.StatusInternalError, Err: err}
	}
	return &rdma.Error{Op: "completion queue", Status: rdma.StatusInvalidHandle, Err: err}
}

// complete ends one request.
func (s *Socket) complete(res *rdma.Result) {
	t := &s.sending
	if res.Op == rdma.OpReceive {
		t = &s.recving
	}
	s.mu.Lock()
	p := t.give(uint32(res.ID))
	s.mu.Unlock()
	switch {
	case res.Status == rdma.StatusSuccess && res.Op == rdma.OpReceive:
		p.o.finish(res.Bytes, nil)
	case res.Status == rdma.StatusSuccess:
		p.o.finish(p.length, nil)
	case res.Status == rdma.StatusCanceled:
		p.o.finish(0, flushed(p.op))
	default:
		p.o.finish(0, failed(p.op, "", res.Status))
	}
}

// flushed returns the error of a request that was pending at the end of the connection.
//
// Source: [WSD §7]
func flushed(op string) error {
	if op == opRecv {
		return &Error{Op: op, Errno: ECONNRESET}
	}
	return &Error{Op: op, Errno: OperationAborted}
}

// finishLate ends the requests that were deferred and could not be posted.
func (s *Socket) finishLate() int {
	s.posting.Lock()
	all := s.refused
	s.refused = nil
	s.late.Store(false)
	s.posting.Unlock()
	for _, r := range all {
		r.o.finish(0, r.err)
	}
	return len(all)
}

// GetResult returns the outcome of a request of this socket: the number of bytes that
// were moved, and the error of a request that failed. For a pending request it polls once,
// and returns IOIncomplete if the request is still pending then. A Complete function calls
// it too; the request is no longer pending there, and GetResult does not poll.
//
// Source: [WSD §5.6 WSPGetOverlappedResult]
func (s *Socket) GetResult(o *Overlapped) (int, error) {
	if !o.isDone() {
		if _, err := s.Poll(); err != nil && !o.isDone() {
			return 0, err
		}
		if !o.isDone() {
			return 0, IOIncomplete
		}
	}
	return o.n, o.err
}

// Wait sleeps until there may be a completion for Poll, or ctx ends. A completion after a
// Poll that returned 0 ends the sleep at once. Safe for concurrent use.
//
// Errors: ctx's; ENOTSOCK once the socket is closed, ENETDOWN.
func (s *Socket) Wait(ctx context.Context) error {
	if s.late.Load() {
		return nil
	}
	err := s.cq.Wait(ctx, rdma.NotifyAny)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &Error{Op: "wait", Errno: OperationAborted, Err: context.Cause(ctx)}
	}
	return failed("wait", "", s.closedOr(err))
}

// drain handles the remaining completions. Precondition: the queue pair is closed.
func (s *Socket) drain() {
	s.polling.Lock()
	defer s.polling.Unlock()
	for {
		if n, err := s.pollLocked(); n == 0 || err != nil {
			return
		}
	}
}
