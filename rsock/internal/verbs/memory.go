package verbs

import (
	"context"
	"errors"

	"lwio/rdma"
)

// Access says what memory is registered for.
//
// Source: [WSD §2.3 WSPRegisterMemory]
type Access uint8

// The rights. For RegisterMemory, to read is to be the source of a Send or an
// RdmaWrite, to write the target of a Recv or an RdmaRead; for RegisterRdmaMemory
// they are those of the peer.
const (
	MemRead      Access = 1
	MemWrite     Access = 2
	MemReadWrite        = MemRead | MemWrite
)

func (a Access) valid() bool { return a != 0 && a&^MemReadWrite == 0 }

// local are the rights of a region that no peer may touch.
func (a Access) local() rdma.Access {
	if a&MemWrite != 0 {
		return rdma.AccessLocalWrite | rdma.AccessReadSink
	}
	return 0
}

// remote are those of one that the peer may.
func (a Access) remote() (r rdma.Access) {
	if a&MemRead != 0 {
		r |= rdma.AccessRemoteRead
	}
	if a&MemWrite != 0 {
		r |= rdma.AccessRemoteWrite
	}
	return r
}

// Handle stands for memory that was registered with a socket. It can be compared;
// the zero Handle stands for none.
//
// Source: [WSD §2.3 WSPRegisterMemory]
type Handle struct{ r *registration }

// Alloc gives zeroed memory that may be faster for this socket than any other; size
// is in bytes and is rounded up to whole pages. The caller closes it when its
// registrations are gone, and must not use it any more once Close of the socket is
// called.
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
// connected. The same memory with the same rights has one Handle, which counts how
// often it was registered. buf stays the caller's, but while a request uses it; it is
// kept alive.
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
	r, err := s.again(op, key)
	if r != nil || err != nil {
		return Handle{r}, errors.Join(err, region.Close()) // somebody else was faster
	}
	return s.enter(op, &registration{s: s, region: region, key: key})
}

// again finds a registration of the same memory, and counts it up.
func (s *Socket) again(op string, key memoryKey) (*registration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, &Error{Op: op, Errno: ENOTSOCK}
	}
	return s.memory.again(key), nil
}

// enter makes a registration known.
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

// DeregisterMemory takes one registration back. With the last one the Handle is
// worth nothing any more.
//
// Errors: EINVAL for a Handle that is not, or no longer, of this socket, and for the
// last registration while a request uses the memory; then it stays.
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

// check looks whether buffers lie in memory that is registered for access, and adds
// up their lengths. The caller holds mu.
func (s *Socket) check(bufs []BufferEx, access Access) (int, Errno) {
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

// RegisterRdmaMemory lets the peer of this connection, and nobody else, touch memory
// until DeregisterRdmaMemory, and writes a descriptor for it into desc, which is for
// a message to the peer. It returns the size of the descriptor, in bytes, which is at
// most MaxDescriptorSize. buf stays the caller's, but what the peer may write can
// change at any time.
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

// DeregisterRdmaMemory ends that the peer may touch what a descriptor of this socket
// names. When it has returned, the peer does not.
//
// Errors: EINVAL for a descriptor that is not, or no longer, one of this socket, and
// while a peer that keeps on writing cannot be kept from it; then it stays, though the
// peer may begin nothing more, and the call may be made again.
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

// registerError is why memory could not be had or registered.
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
