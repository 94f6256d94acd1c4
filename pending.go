package lwio

import (
	"context"

	"lwio/internal/client/fileio"
)

// PendingFile is a file under construction. It has a name of its own beside the
// final one until Commit, so that half of it is never visible, and the server
// deletes it if it is closed, or the session lost, before.
type PendingFile struct {
	*File
	p *fileio.PendingFile
}

// CreatePending begins to make, or to replace, the file name, for reading and
// writing.
//
// Errors: as OpenFile; syscall.EISDIR if there is a directory of the name.
func (c *Client) CreatePending(ctx context.Context, name string) (*PendingFile, error) {
	p, err := c.c.CreatePending(ctx, name)
	if err != nil {
		return nil, err
	}
	return &PendingFile{&File{p.File}, p}, nil
}

// Name is the final name.
func (p *PendingFile) Name() string { return p.p.Name() }

// Commit gives the file its final name, in place of a file that has it, after all
// earlier writes, and closes it. It does not wait for stable storage; Sync before
// it does. After an error that is not ErrUncertain the file is as it was.
//
// Errors: fs.ErrPermission, among other reasons if the file that has the name is open, as in another Commit of
// the same name at the same time; ErrUncertain
// together with the cause if it is unknown whether the file has got its name, because the
// server did not answer, even a second after ctx ended, or whether it could be closed.
// Another Commit finds that out, if the server answers by then. Where the server stays silent
// a file may be left under another name.
func (p *PendingFile) Commit(ctx context.Context) error { return p.p.Commit(ctx) }

// Close deletes the file unless it was committed, or may have been. A second Close does nothing.
func (p *PendingFile) Close() error { return p.p.Close() }
