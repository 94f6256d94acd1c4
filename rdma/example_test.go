package rdma_test

import (
	"context"
	"errors"
	"fmt"

	"lwio/rdma"
)

// minimalAdapter has none of the optional objects. A provider overrides the methods of the
// objects that it has.
type minimalAdapter struct {
	rdma.UnimplementedAdapter
}

func ExampleUnimplementedAdapter() {
	var a minimalAdapter
	_, file := a.RegisterFile(context.Background(), nil)
	_, window := a.CreateMemoryWindow()
	_, shared := a.CreateSharedReceiveQueue(rdma.SharedReceiveQueueConfig{})
	for _, err := range []error{file, window, shared} {
		fmt.Println(err, errors.Is(err, errors.ErrUnsupported))
	}
	// Output:
	// register file: not supported true
	// create memory window: not supported true
	// create shared receive queue: not supported true
}
