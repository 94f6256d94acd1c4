package rdma

import (
	"context"
	"os"
)

// UnimplementedAdapter returns StatusNotSupported, which is errors.ErrUnsupported, from
// the optional methods of an Adapter. Providers embed it and override the methods that
// they have.
type UnimplementedAdapter struct{}

func unsupported(op string) error { return &Error{Op: op, Status: StatusNotSupported} }

// RegisterFile returns StatusNotSupported.
func (UnimplementedAdapter) RegisterFile(context.Context, *os.File) (FileSource, error) {
	return nil, unsupported("register file")
}

// CreateMemoryWindow returns StatusNotSupported.
func (UnimplementedAdapter) CreateMemoryWindow() (MemoryWindow, error) {
	return nil, unsupported("create memory window")
}

// CreateSharedReceiveQueue returns StatusNotSupported.
func (UnimplementedAdapter) CreateSharedReceiveQueue(SharedReceiveQueueConfig) (SharedReceiveQueue, error) {
	return nil, unsupported("create shared receive queue")
}
