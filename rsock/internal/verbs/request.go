package verbs

import (
	"sync/atomic"

	"lwio/rdma"
)

// BufferEx is a part of registered memory: Length bytes from Offset in the memory of
// Handle.
//
// Source: [WSD §2.3 WSABUFEX]
type BufferEx struct {
	Handle         Handle
	Offset, Length int
}

// Flags modify a request.
type Flags uint8

// Defer leaves the request to be posted with the next request without the flag, or by
// Commit.
const Defer Flags = 1

// Overlapped holds the state and the outcome of one request at a time. It belongs to the
// caller, can be used again, and must not be copied or freed while a request is pending.
//
// Source: [WSD §5.6]
type Overlapped struct {
	// Complete asks for notification. Poll or Close calls it once, when the request has
	// ended and GetResult has the outcome. It may post requests, also with this
	// Overlapped. It must not block or close the socket. For a request without Complete
	// the caller polls. It must not change while a request is pending.
	//
	// Source: [WSD §5.6 WPUCompleteOverlappedRequest]
	Complete func(*Overlapped)

	state atomic.Uint32
	n     int
	err   error
}

// The states of an Overlapped.
const (
	overIdle uint32 = iota
	overPending
	overDone
)

// isDone reports whether the request has ended and its outcome is there.
func (o *Overlapped) isDone() bool { return o.state.Load() == overDone }

// finish sets the outcome of the request, and calls Complete.
func (o *Overlapped) finish(n int, err error) {
	o.n, o.err = n, err
	complete := o.Complete
	o.state.Store(overDone)
	if complete != nil {
		complete(o)
	}
}

// The names of the requests.
const (
	opSend  = "send"
	opRecv  = "receive"
	opRead  = "rdma read"
	opWrite = "rdma write"
)

// Send sends one message of at most Options.MaxMsgSize bytes, from memory that was
// registered for MemRead. The peer must have a receive posted. The socket owns the memory
// until the request has ended. bufs is read only during the call.
//
// Errors: EFAULT for memory that is not registered, EINVAL for too many buffers or
// an Overlapped in use, EMSGSIZE, ENOBUFS if the queue is full, ENOTCONN, ENOTSOCK.
// After an error no request is queued, and the Overlapped is free.
//
// Source: [WSD §2.1 WSPSend], [WSD §5.6]
func (s *Socket) Send(o *Overlapped, bufs []BufferEx, flags Flags) error {
	return s.initiate(o, opSend, rdma.Request{Op: rdma.OpSend}, bufs, nil, 0, flags)
}

// Recv posts a receive for one message, into memory that was registered for MemWrite; Recv
// may be called before the socket is connected. The outcome has the length of the message.
// In all other respects Recv is like Send.
//
// Errors: the errors of Send except EMSGSIZE and ENOTCONN.
//
// Source: [WSD §2.1 WSPRecv], [WSD §5.6]
func (s *Socket) Recv(o *Overlapped, bufs []BufferEx, flags Flags) error {
	s.posting.Lock()
	defer s.posting.Unlock()
	id, sgl, _, err := s.claim(o, opRecv, bufs)
	if err != nil {
		return err
	}
	s.recvs = append(s.recvs, rdma.ReceiveRequest{ID: uint64(id), SGL: sgl})
	if flags&Defer != 0 {
		return nil
	}
	return s.commitLocked(refusal{o: o})
}

// RdmaRead copies from the peer's memory, at a byte offset in the memory of the descriptor
// target, into memory that was registered for MemWrite. A request that the peer's side
// refuses, for example for an invalid descriptor, fails and ends the connection. In all
// other respects RdmaRead is like Send.
//
// Errors: the errors of Send; EOPNOTSUPP if the provider lacks RDMA Read; EINVAL for an
// invalid descriptor or one that does not allow reads, and for more than Options.MaxRdmaSize
// bytes; EFAULT for a range outside the peer's memory.
//
// Source: [WSD §2.3 WSPRdmaRead]
func (s *Socket) RdmaRead(o *Overlapped, bufs []BufferEx, target []byte, offset uint32, flags Flags) error {
	if !s.v.canRead() {
		return &Error{Op: opRead, Errno: EOPNOTSUPP}
	}
	return s.initiate(o, opRead, rdma.Request{Op: rdma.OpRead}, bufs, target, offset, flags)
}

// RdmaWrite copies memory that was registered for MemRead to the peer's memory, at a byte
// offset in the memory of the descriptor target. In all other respects RdmaWrite is like
// RdmaRead.
//
// Source: [WSD §2.3 WSPRdmaWrite]
func (s *Socket) RdmaWrite(o *Overlapped, bufs []BufferEx, target []byte, offset uint32, flags Flags) error {
	return s.initiate(o, opWrite, rdma.Request{Op: rdma.OpWrite}, bufs, target, offset, flags)
}

// initiate queues a request that is not a receive.
func (s *Socket) initiate(o *Overlapped, op string, r rdma.Request, bufs []BufferEx, target []byte, offset uint32, flags Flags) error {
	var d descriptor
	if op != opSend {
		var errno Errno
		if d, errno = aim(op, target); errno != 0 {
			return &Error{Op: op, Object: "descriptor", Errno: errno}
		}
	}
	s.posting.Lock()
	defer s.posting.Unlock()
	id, sgl, length, err := s.claim(o, op, bufs)
	if err != nil {
		return err
	}
	if op != opSend {
		if uint64(offset)+uint64(length) > d.length {
			s.disclaim(o, id)
			return &Error{Op: op, Object: "past the end of the peer's memory", Errno: EFAULT}
		}
		r.Remote = rdma.RemoteAddr{Addr: d.at.Addr + uint64(offset), Token: d.at.Token}
	}
	r.ID, r.SGL = uint64(id), sgl
	s.sends = append(s.sends, r)
	if flags&Defer != 0 {
		return nil
	}
	return s.commitLocked(refusal{o: o})
}

// aim decodes a descriptor, and checks that it allows the operation.
func aim(op string, target []byte) (descriptor, Errno) {
	d, ok := decodeDescriptor(target)
	want := MemRead
	if op == opWrite {
		want = MemWrite
	}
	if !ok || d.access&want == 0 {
		return d, EINVAL
	}
	return d, 0
}

// claim checks a request, enters it into the table, and makes its scatter/gather list.
// Precondition: posting is held.
func (s *Socket) claim(o *Overlapped, op string, bufs []BufferEx) (id uint32, sgl []rdma.SGE, length int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, access, most := &s.sending, MemRead, s.v.opts.MaxBuffers
	switch op {
	case opRecv:
		t, access = &s.recving, MemWrite
	case opRead:
		access, most = MemWrite, s.v.opts.MaxReadBuffers
	}
	errno := Errno(0)
	switch {
	case s.closed:
		errno = ENOTSOCK
	case op != opRecv && !s.connected.Load():
		errno = ENOTCONN
	case len(bufs) > most, o.state.Load() == overPending:
		errno = EINVAL
	case len(t.free) == 0:
		errno = ENOBUFS
	default:
		length, errno = s.checkLocked(bufs, access)
	}
	if errno == 0 {
		errno = s.v.opts.tooLong(op, length)
	}
	if errno != 0 {
		return 0, nil, 0, &Error{Op: op, Errno: errno}
	}
	first := len(s.sges)
	id = t.take()
	p := &t.all[id]
	p.o, p.op, p.length, p.n = o, op, length, len(bufs)
	for i := range bufs {
		r := bufs[i].Handle.r
		r.pending++
		p.regs[i] = r
		s.sges = append(s.sges, rdma.SGE{Region: r.region, Offset: bufs[i].Offset, Length: bufs[i].Length})
	}
	o.state.Store(overPending)
	return id, s.sges[first:len(s.sges):len(s.sges)], length, nil
}

// tooLong returns the code of a request that is too long, or 0.
func (o *Options) tooLong(op string, length int) Errno {
	switch {
	case op == opSend && length > o.MaxMsgSize:
		return EMSGSIZE
	case (op == opRead || op == opWrite) && length > o.MaxRdmaSize:
		return EINVAL
	}
	return 0
}

// disclaim undoes claim for a request that is not a receive.
func (s *Socket) disclaim(o *Overlapped, id uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sending.give(id)
	o.state.Store(overIdle)
}

// TrimIdle frees memory that is not in use until a message arrives or is sent, if the
// provider supports it: see [rdma.QueuePair].
func (s *Socket) TrimIdle() { s.qp.TrimIdle() }

// Commit posts the requests that were deferred.
//
// Errors: the error of the first request that could not be posted. That request and the
// requests after it end with errors of their own.
func (s *Socket) Commit() error {
	s.posting.Lock()
	defer s.posting.Unlock()
	return s.commitLocked(refusal{})
}

// refusal is a deferred request that could not be posted.
type refusal struct {
	o   *Overlapped
	err error
}

// commitLocked posts the queued requests, receives first. If the provider refuses the
// request now, commitLocked frees it and returns its error. Other refused requests end with
// their errors at the next Poll. Without now commitLocked returns the first error.
func (s *Socket) commitLocked(now refusal) error {
	if n := len(s.recvs); n > 0 {
		taken, err := s.qp.PostReceive(s.recvs)
		if err != nil {
			for i := taken; i < n; i++ {
				s.refuseLocked(&s.recving, s.recvs[i].ID, &now, err)
			}
		}
		clear(s.recvs)
		s.recvs = s.recvs[:0]
	}
	if n := len(s.sends); n > 0 {
		taken, err := s.qp.Post(s.sends)
		if err != nil {
			for i := taken; i < n; i++ {
				s.refuseLocked(&s.sending, s.sends[i].ID, &now, err)
			}
		}
		clear(s.sends)
		s.sends = s.sends[:0]
	}
	clear(s.sges)
	s.sges = s.sges[:0]
	return now.err
}

// refuseLocked ends a request that could not be posted.
func (s *Socket) refuseLocked(t *requestTable, id uint64, now *refusal, cause error) {
	s.mu.Lock()
	p := t.give(uint32(id))
	closed := s.closed
	s.mu.Unlock()
	err := s.postError(p.op, closed, cause)
	switch {
	case p.o == now.o:
		now.err = err
		p.o.state.Store(overIdle)
		return
	case now.o == nil && now.err == nil:
		now.err = err
	}
	s.refused = append(s.refused, refusal{p.o, err})
	s.late.Store(true)
}

// postError returns the error of a request that could not be posted.
func (s *Socket) postError(op string, closed bool, cause error) error {
	errno := errnoOf(rdma.StatusOf(cause))
	switch {
	case closed:
		errno = ENOTSOCK
	case errno == ENOTCONN, errno == ENOTSOCK, errno == OperationAborted:
		errno = ECONNRESET // it was connected
	}
	return &Error{Op: op, Errno: errno, Err: cause}
}

// dropLocked ends the deferred requests of a socket that closes.
func (s *Socket) dropLocked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.recvs {
		p := s.recving.give(uint32(s.recvs[i].ID))
		s.refused = append(s.refused, refusal{p.o, flushed(p.op)})
	}
	for i := range s.sends {
		p := s.sending.give(uint32(s.sends[i].ID))
		s.refused = append(s.refused, refusal{p.o, flushed(p.op)})
	}
	s.recvs, s.sends, s.sges = nil, nil, nil
	s.late.Store(len(s.refused) > 0)
}
