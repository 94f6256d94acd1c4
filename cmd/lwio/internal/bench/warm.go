package bench

import (
	"context"

	"lwio/internal/host"
)

// warmChunk is the size of a read of warm, in bytes.
const warmChunk = 1 << 20

// warm reads the file by the first target that can, so that it is in the page cache. It
// reads at most as much as this host has memory. The failure of a target shows when it is
// measured.
func warm(ctx context.Context, targets []Target, j *Job) {
	size := min(j.FileSize, host.TotalMemory())
	for _, t := range targets {
		if readOnce(ctx, t, j, size) == nil || ctx.Err() != nil {
			return
		}
	}
}

// readOnce reads the first size bytes of the file.
func readOnce(ctx context.Context, t Target, j *Job, size int64) error {
	c, err := t.Open(ctx, j)
	if err != nil {
		return err
	}
	defer c.Close()
	p := make([]byte, min(warmChunk, size))
	for off := int64(0); off < size && ctx.Err() == nil; off += int64(len(p)) {
		if _, err := c.ReadAt(ctx, p[:min(int64(len(p)), size-off)], off); err != nil {
			return err
		}
	}
	return ctx.Err()
}
