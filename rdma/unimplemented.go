package rdma

import (
	"context"
	"os"
)

// UnimplementedAdapter answers StatusNotSupported, which is
// errors.ErrUnsupported, for the parts of an Adapter that a provider may lack.
// Providers embed it and override what they have.
type UnimplementedAdapter struct{}

func unsupported(op string) error { return &Error{Op: op, Status: StatusNotSupported} }

// RegisterFile reports that there are no file sources.
func (UnimplementedAdapter) RegisterFile(context.Context, *os.File) (FileSource, error) {
	return nil, unsupported("register file")
}

// CreateMemoryWindow reports that there are no memory windows.
func (UnimplementedAdapter) CreateMemoryWindow() (MemoryWindow, error) {
	return nil, unsupported("create memory window")
}

// CreateSharedReceiveQueue reports that there are no shared receive queues.
func (UnimplementedAdapter) CreateSharedReceiveQueue(SharedReceiveQueueConfig) (SharedReceiveQueue, error) {
	return nil, unsupported("create shared receive queue")
}
