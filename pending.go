package lwio

import (
	"context"

	"lwio/internal/client/fileio"
)

// PendingFile is a file that gets its name when it is complete. Until Commit it has a temporary
// name beside the final one. Close without Commit deletes it, and so does the server when it does not
// keep the file open any more (ErrStale).
type PendingFile struct {
	*File
	p *fileio.PendingFile
}

// CreatePending creates a temporary file for reading and writing. Commit gives it name, in place
// of an existing file.
//
// Errors: as OpenFile; syscall.EISDIR if name is a directory.
func (c *Client) CreatePending(ctx context.Context, name string) (*PendingFile, error) {
	p, err := c.c.CreatePending(ctx, name)
	if err != nil {
		return nil, err
	}
	return &PendingFile{&File{p.File}, p}, nil
}

// Name returns the final name.
func (p *PendingFile) Name() string { return p.p.Name() }

// Commit waits for all earlier writes, gives the file its final name, in place of an existing
// file, and closes it. It does not wait for stable storage: call Sync before. After an error that
// is not ErrUncertain the existing file is unchanged, and Commit may be called again. A file that is read-only is
// replaced too, as POSIX has it.
//
// Errors: fs.ErrPermission, also if the existing file is open, as during another Commit of the
// same name; fs.ErrClosed after a successful Commit or after Close; ErrUncertain together with
// the cause if the server did not answer the rename, even one second after ctx ended, or did not
// answer the close. After ErrUncertain another Commit asks the server for the outcome. While the
// server does not answer, the file may keep its temporary name.
func (p *PendingFile) Commit(ctx context.Context) error { return p.p.Commit(ctx) }

// Close deletes the file, unless Commit has given it its name or may have done so. A second Close
// does nothing, and so does Close after Commit.
func (p *PendingFile) Close() error { return p.p.Close() }
