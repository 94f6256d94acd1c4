package verbs

import (
	"context"
	"errors"

	"lwio/rdma"
)

// Access is the use that memory is registered for.
//
// Source: [WSD §2.3 WSPRegisterMemory]
type Access uint8

// The rights. For RegisterMemory, MemRead allows the source of a Send or an RdmaWrite, and
// MemWrite the target of a Recv or an RdmaRead; for RegisterRdmaMemory they are the rights
// of the peer.
const (
	MemRead      Access = 1
	MemWrite     Access = 2
	MemReadWrite        = MemRead | MemWrite
)

func (a Access) valid() bool { return a != 0 && a&^MemReadWrite == 0 }

// local returns the rights of a region that no peer may access.
func (a Access) local() rdma.Access {
	if a&MemWrite != 0 {
		return rdma.AccessLocalWrite | rdma.AccessReadSink
	}
	return 0
}

// remote returns the rights of a region that the peer may access.
func (a Access) remote() (r rdma.Access) {
	if a&MemRead != 0 {
		r |= rdma.AccessRemoteRead
	}
	if a&MemWrite != 0 {
		r |= rdma.AccessRemoteWrite
	}
	return r
}

// Handle stands for memory that is registered with a socket. It is comparable; the zero
// Handle stands for none.
//
// Source: [WSD §2.3 WSPRegisterMemory]
type Handle struct{ r *registration }

// Alloc returns zeroed memory that may be faster for this socket than other memory. size is
// in bytes and is rounded up to whole pages. The caller closes the memory after it has
// deregistered it, and must not use it once Close of the socket is called.
//
// Errors: ENOBUFS, ENOTSOCK, ctx's.
func (s *Socket) Alloc(ctx context.Context, size int) (rdma.Memory, error) {
	m, err := s.adapter.Alloc(ctx, size)
	if err != nil {
		return nil, registerError("alloc", err)
	}
	return m, nil
}

// RegisterMemory registers memory for requests of this socket, before or after it is
// connected. The same memory with the same rights has one Handle, which counts the
// registrations. The caller owns buf except while a request uses it. The registration keeps
// buf alive.
//
// Errors: EFAULT for no memory, EINVAL for the rights, ENOBUFS, ENOTSOCK, ctx's.
//
// Source: [WSD §2.3 WSPRegisterMemory], [WSD §6]
func (s *Socket) RegisterMemory(ctx context.Context, buf []byte, access Access) (Handle, error) {
	const op = "register memory"
	switch {
	case len(buf) == 0:
		return Handle{}, &Error{Op: op, Errno: EFAULT}
	case !access.valid():
		return Handle{}, &Error{Op: op, Errno: EINVAL}
	}
	key := memoryKey{addressOf(buf), len(buf), access}
	if r, err := s.again(op, key); r != nil || err != nil {
		return Handle{r}, err
	}
	region, err := s.adapter.RegisterMemory(ctx, buf, access.local())
	if err != nil {
		return Handle{}, registerError(op, err)
	}
	return s.enter(op, &registration{s: s, region: region, key: key})
}

// again adds a reference to the registration of the same memory, if there is one.
func (s *Socket) again(op string, key memoryKey) (*registration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, &Error{Op: op, Errno: ENOTSOCK}
	}
	return s.memory.again(key), nil
}

// enter adds a registration.
func (s *Socket) enter(op string, r *registration) (Handle, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return Handle{}, errors.Join(&Error{Op: op, Errno: ENOTSOCK}, r.region.Close())
	}
	other := s.memory.again(r.key)
	if other == nil {
		s.memory.add(r)
	}
	s.mu.Unlock()
	if other != nil {
		return Handle{other}, r.region.Close()
	}
	return Handle{r}, nil
}

// DeregisterMemory undoes one registration. With the last one the Handle becomes invalid.
//
// Errors: EINVAL for a Handle that is not valid on this socket. EINVAL also while a request
// uses the memory, for the last registration, which then stays.
//
// Source: [WSD §2.3 WSPDeregisterMemory], [WSD §6]
func (s *Socket) DeregisterMemory(h Handle) error {
	const op = "deregister memory"
	r := h.r
	s.mu.Lock()
	if r == nil || r.s != s || r.refs == 0 || r.refs == 1 && r.pending > 0 {
		s.mu.Unlock()
		return &Error{Op: op, Errno: EINVAL}
	}
	out := s.memory.drop(r)
	s.mu.Unlock()
	if out == nil {
		return nil
	}
	if err := out.region.Close(); err != nil {
		return failed(op, "", err)
	}
	return nil
}

// checkLocked checks that buffers lie in memory that is registered for access, and returns
// the sum of their lengths.
func (s *Socket) checkLocked(bufs []BufferEx, access Access) (int, Errno) {
	length := 0
	for i := range bufs {
		b := &bufs[i]
		r := b.Handle.r
		if r == nil || r.s != s || r.refs == 0 || r.key.access&access == 0 ||
			b.Offset < 0 || b.Length < 0 || b.Offset > r.key.size || b.Length > r.key.size-b.Offset {
			return 0, EFAULT
		}
		length += b.Length
	}
	return length, 0
}

// RegisterRdmaMemory lets the peer of this connection, and no other, access memory until
// DeregisterRdmaMemory, and writes a descriptor of it to desc, for a message to the peer. It
// returns the size of the descriptor, in bytes, which is at most MaxDescriptorSize. The
// caller still owns buf, but memory that the peer may write can change at any time.
//
// Errors: EFAULT for no memory, and, with Error.Need, for a desc that is too short;
// EINVAL for the rights; ENOTCONN; ENOBUFS; ctx's.
//
// Source: [WSD §2.3 WSPRegisterRdmaMemory], [WSD §6]
func (s *Socket) RegisterRdmaMemory(ctx context.Context, buf []byte, access Access, desc []byte) (int, error) {
	const op = "register rdma memory"
	switch {
	case len(desc) < DescriptorSize:
		return 0, &Error{Op: op, Errno: EFAULT, Need: DescriptorSize}
	case len(buf) == 0:
		return 0, &Error{Op: op, Errno: EFAULT}
	case !access.valid():
		return 0, &Error{Op: op, Errno: EINVAL}
	case !s.connected.Load() || s.Err() != nil:
		return 0, &Error{Op: op, Errno: ENOTCONN}
	}
	region, err := s.adapter.RegisterMemory(ctx, buf, access.remote())
	if err != nil {
		return 0, registerError(op, err)
	}
	d := descriptor{access: access, at: region.RemoteAddr(), length: uint64(len(buf))}
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.memory.remote[d] = region
	}
	s.mu.Unlock()
	if closed {
		return 0, errors.Join(&Error{Op: op, Errno: ENOTCONN}, region.Close())
	}
	d.appendTo(desc[:0])
	return DescriptorSize, nil
}

// DeregisterRdmaMemory ends the peer's access to the memory of a descriptor of this socket.
// When it has returned, the peer does not access the memory any more.
//
// Errors: EINVAL for a descriptor that is not valid on this socket. EINVAL also while a
// write of the peer is in progress and cannot be stopped. Then the memory stays registered,
// the peer can begin no further access, and the call may be repeated.
//
// Source: [WSD §2.3 WSPDeregisterRdmaMemory], [WSD §6]
func (s *Socket) DeregisterRdmaMemory(desc []byte) error {
	const op = "deregister rdma memory"
	d, ok := decodeDescriptor(desc)
	s.mu.Lock()
	region := s.memory.remote[d]
	s.mu.Unlock()
	if !ok || region == nil {
		return &Error{Op: op, Errno: EINVAL}
	}
	if err := region.Close(); err != nil {
		return failed(op, "", err)
	}
	s.mu.Lock()
	delete(s.memory.remote, d)
	s.mu.Unlock()
	return nil
}

// registerError returns the error of memory that could not be allocated or registered.
//
// Source: [WSD §2.3 WSPRegisterMemory], [WSD §5.4]
func registerError(op string, err error) error {
	errno := errnoOf(rdma.StatusOf(err))
	switch errno {
	case EINVAL, EFAULT, ENOTSOCK:
	case OperationAborted:
	default:
		errno = ENOBUFS
	}
	return &Error{Op: op, Errno: errno, Err: err}
}
