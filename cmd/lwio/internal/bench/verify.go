package bench

import (
	"context"
	"fmt"
)

// restore gives a file its original content again. The written content differs, so a lost
// write shows even in a file that an earlier job wrote.
func restore(ctx context.Context, c Conn, j *Job) error {
	return FillFile(j.FileSize, func(p []byte, off int64) error {
		if n, err := c.WriteAt(ctx, p, off); err != nil || n < len(p) {
			return fmt.Errorf("restore at offset %d: %d of %d bytes: %w", off, n, len(p), err)
		}
		return nil
	})
}

// readBack verifies all of a file: the blocks that the workers wrote have the written
// content, all others the content of restore.
func readBack(ctx context.Context, c Conn, j *Job, workers []*Worker) error {
	bs := int64(j.BlockSize)
	wrote := newBlocks(j.FileSize / bs)
	for _, w := range workers {
		wrote.merge(w.wrote)
	}
	p := make([]byte, max(1<<20/bs, 1)*bs)
	for off := int64(0); off < j.FileSize; {
		n := int(min(int64(len(p)), j.FileSize-off))
		if m, err := c.ReadAt(ctx, p[:n], off); m < n {
			return fmt.Errorf("read back at offset %d: %d of %d bytes: %w", off, m, n, err)
		}
		for at := 0; at < n; at += j.BlockSize {
			if err := verifyBlock(p[at:min(at+j.BlockSize, n)], off+int64(at), j, wrote); err != nil {
				return err
			}
		}
		off += int64(n)
	}
	return nil
}

// verifyBlock verifies a block, or the rest of the file that is too short for one.
func verifyBlock(p []byte, off int64, j *Job, wrote blocks) error {
	if len(p) < j.BlockSize || !wrote.has(off/int64(j.BlockSize)) {
		if err := verify(p, off, original); err != nil {
			return fmt.Errorf("a block that was not written: %w", err)
		}
		return nil
	}
	if err := verify(p, off, written); err != nil {
		return fmt.Errorf("a block that was written: %w", err)
	}
	return nil
}
