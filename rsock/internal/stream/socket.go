package stream

import (
	"context"
	"fmt"

	"lwio/rsock/internal/verbs"
)

// socket is a verbs.Socket with the extension functions that the look-up of its service
// returned. A stream uses no other way to register memory and to move data by RDMA.
//
// Source: [WSD §2.2]
type socket struct {
	*verbs.Socket
	registerMemory       func(*verbs.Socket, context.Context, []byte, verbs.Access) (verbs.Handle, error)
	deregisterMemory     func(*verbs.Socket, verbs.Handle) error
	registerRdmaMemory   func(*verbs.Socket, context.Context, []byte, verbs.Access, []byte) (int, error)
	deregisterRdmaMemory func(*verbs.Socket, []byte) error
	rdmaWrite            rdmaFunc
	rdmaRead             rdmaFunc // nil: the provider lacks RDMA Read
}

// rdmaFunc is the type of WSPRdmaRead and WSPRdmaWrite.
type rdmaFunc = func(*verbs.Socket, *verbs.Overlapped, []verbs.BufferEx, []byte, uint32, verbs.Flags) error

// init looks the extension functions of a socket up.
//
// Errors: the errors of verbs.Service.Extension for a function that a provider must have.
//
// Source: [WSD §2.4 SIO_GET_EXTENSION_FUNCTION_POINTER]
func (k *socket) init(sock *verbs.Socket) error {
	k.Socket = sock
	v := sock.Service()
	switch err := lookUp(v, verbs.WSPRdmaRead, &k.rdmaRead); verbs.ErrnoOf(err) {
	case 0, verbs.EOPNOTSUPP: // the only function of these that a provider may lack
	default:
		return err
	}
	for _, err := range []error{
		lookUp(v, verbs.WSPRegisterMemory, &k.registerMemory),
		lookUp(v, verbs.WSPDeregisterMemory, &k.deregisterMemory),
		lookUp(v, verbs.WSPRegisterRdmaMemory, &k.registerRdmaMemory),
		lookUp(v, verbs.WSPDeregisterRdmaMemory, &k.deregisterRdmaMemory),
		lookUp(v, verbs.WSPRdmaWrite, &k.rdmaWrite),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// lookUp stores an extension function of a service in f.
func lookUp[F any](v *verbs.Service, id verbs.GUID, f *F) error {
	found, err := v.Extension(id)
	if err != nil {
		return err
	}
	typed, ok := found.(F)
	if !ok {
		return fmt.Errorf("extension function %s is a %T", id, found)
	}
	*f = typed
	return nil
}

// RegisterMemory is WSPRegisterMemory.
func (k *socket) RegisterMemory(ctx context.Context, buf []byte, access verbs.Access) (verbs.Handle, error) {
	return k.registerMemory(k.Socket, ctx, buf, access)
}

// DeregisterMemory is WSPDeregisterMemory.
func (k *socket) DeregisterMemory(h verbs.Handle) error { return k.deregisterMemory(k.Socket, h) }

// RegisterRdmaMemory is WSPRegisterRdmaMemory.
func (k *socket) RegisterRdmaMemory(ctx context.Context, buf []byte, access verbs.Access, desc []byte) (int, error) {
	return k.registerRdmaMemory(k.Socket, ctx, buf, access, desc)
}

// DeregisterRdmaMemory is WSPDeregisterRdmaMemory.
func (k *socket) DeregisterRdmaMemory(desc []byte) error {
	return k.deregisterRdmaMemory(k.Socket, desc)
}

// RdmaWrite is WSPRdmaWrite.
func (k *socket) RdmaWrite(o *verbs.Overlapped, bufs []verbs.BufferEx, target []byte, offset uint32, flags verbs.Flags) error {
	return k.rdmaWrite(k.Socket, o, bufs, target, offset, flags)
}

// RdmaRead is WSPRdmaRead. Precondition: canRead.
func (k *socket) RdmaRead(o *verbs.Overlapped, bufs []verbs.BufferEx, target []byte, offset uint32, flags verbs.Flags) error {
	return k.rdmaRead(k.Socket, o, bufs, target, offset, flags)
}

// canRead reports whether the provider has WSPRdmaRead.
func (k *socket) canRead() bool { return k.rdmaRead != nil }
