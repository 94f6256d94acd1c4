package fileio

import (
	"context"
	"io/fs"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/client/smbshare"
)

// Chtimes sets the times of a file or directory, after the fence of broken connections: a write that is done
// late would set them again. A zero time changes nothing.
func (c *Client) Chtimes(ctx context.Context, name string, accessed, modified time.Time) error {
	return base.Wrap("chtimes", name, c.setBasic(ctx, name, smbshare.Basic{Accessed: accessed, Modified: modified}))
}

// Chmod makes a file writable or read-only, by the owner's permission to write in mode.
func (c *Client) Chmod(ctx context.Context, name string, mode fs.FileMode) error {
	return base.Wrap("chmod", name, c.setBasic(ctx, name, smbshare.Writability(mode&0o200 != 0)))
}

func (c *Client) setBasic(ctx context.Context, name string, b smbshare.Basic) error {
	_, err := c.named(ctx, name, func(ctx context.Context, clean string) error {
		if err := c.Fence(ctx); err != nil {
			return err
		}
		return c.sess.SetBasic(ctx, clean, b)
	})
	return err
}
