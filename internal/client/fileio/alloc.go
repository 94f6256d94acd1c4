package fileio

import (
	"context"
	"fmt"
	"io/fs"

	"lwio/internal/client/base"
	"lwio/internal/client/rdmaconn"
)

// Alloc returns a Buffer of size bytes, registered on all connections. The caller closes it.
func (c *Client) Alloc(ctx context.Context, size int) (*rdmaconn.Buffer, error) {
	b, err := c.alloc(ctx, size)
	if err != nil {
		return nil, base.Wrap("alloc", fmt.Sprintf("%d bytes", size), err)
	}
	return b, nil
}

func (c *Client) alloc(ctx context.Context, size int) (*rdmaconn.Buffer, error) {
	if size <= 0 || size > maxBuffer {
		return nil, fmt.Errorf("a buffer has 1 to %d bytes: %w", maxBuffer, fs.ErrInvalid)
	}
	cn, err := c.Home(ctx)
	if err != nil {
		return nil, err
	}
	return c.Buffers.Alloc(ctx, cn, size)
}

// maxBuffer bounds a Buffer, in bytes.
const maxBuffer = 1 << 30
