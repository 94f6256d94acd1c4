package lwio

import (
	"context"
	"crypto/rand"
	"io/fs"
	"os"
	"path"
	"sync"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbclient"
)

// PendingFile is a file under construction. It has a name of its own beside the
// final one until Commit, so that nobody ever sees half of it, and the server
// deletes it if it is closed, or the session lost, before.
type PendingFile struct {
	*File
	final string

	mu    sync.Mutex // guards what follows
	done  bool       // committed or closed
	doubt bool       // the server was asked for the final name, and nobody knows whether it gave it
}

// CreatePending begins to make, or to replace, the file name, for reading and
// writing.
//
// Errors: as OpenFile; syscall.EISDIR if there is a directory of the name.
func (c *Client) CreatePending(ctx context.Context, name string) (*PendingFile, error) {
	p, err := c.createPending(ctx, name)
	if err != nil {
		return nil, wrap("create", name, err)
	}
	return p, nil
}

func (c *Client) createPending(ctx context.Context, name string) (*PendingFile, error) {
	var e entry
	final, err := c.named(ctx, name, func(ctx context.Context, clean string) (err error) {
		e, err = c.sess.stat(ctx, clean)
		return err
	})
	switch {
	case err == nil && e.isDir():
		return nil, ntstatus.FileIsADirectory
	case final == "":
		return nil, err
	}
	req, err := openFlags(os.O_RDWR | os.O_CREATE | os.O_EXCL)
	if err != nil {
		return nil, err
	}
	req.access |= accessDelete
	f, err := c.open(ctx, path.Join(path.Dir(final), ".lwio-"+rand.Text()+".part"), req)
	if err != nil {
		return nil, err
	}
	p := &PendingFile{File: f, final: final}
	err = f.ordered(ctx, func(ctx context.Context) error { return f.h.setDelete(ctx, true) })
	if err != nil {
		f.Close()
		return nil, err
	}
	return p, nil
}

// Name is the final name.
func (p *PendingFile) Name() string { return p.final }

// Commit gives the file its final name, in place of a file that has it, after all
// earlier writes, and closes it. It does not wait for stable storage; Sync before
// it does. After an error that is not ErrUncertain the file is as it was.
//
// Errors: fs.ErrPermission, among other reasons if somebody has the file open that has
// the name, as somebody who commits the same one at the same time does; ErrUncertain
// together with the cause if nobody knows whether the file has got its name, because the
// server did not answer, even a second after ctx ended, or whether it could be closed.
// Another Commit finds that out, if the server answers by then. Where the server stays silent
// a file may be left under another name.
func (p *PendingFile) Commit(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return wrap("commit", p.final, fs.ErrClosed)
	}
	if err := p.ordered(ctx, p.giveName); err != nil {
		if p.doubt {
			err = &uncertainError{err}
		}
		return wrap("commit", p.final, err)
	}
	p.done = true
	if err := p.File.Close(); err != nil {
		return &Error{Op: "commit", Name: p.final, Err: &uncertainError{err}}
	}
	return nil
}

// giveName renames the file, or sees to it that it is deleted when it is closed, unless there
// is doubt whether it is renamed. What was given up before has been answered.
func (p *PendingFile) giveName(ctx context.Context) error {
	if p.doubt {
		named, err := p.hasName(ctx)
		if p.doubt = err != nil; named || p.doubt {
			return err
		}
	}
	err := p.h.setDelete(ctx, false)
	asked := err == nil
	if asked {
		if err = p.h.rename(ctx, p.final); err == nil {
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
	defer cancel()
	silent := p.h.settle(ctx)
	if asked && !smbclient.Refused(err) {
		named, e := false, silent
		if e == nil {
			named, e = p.hasName(ctx)
		}
		switch p.doubt = e != nil; {
		case named:
			return nil // it was renamed before it was given up
		case p.doubt:
			return err
		}
	}
	// If this fails the server is silent, or the session lost, and a file of the temporary
	// name is left behind.
	_ = p.h.setDelete(ctx, true)
	return err
}

// hasName tells whether the file has its final name, which is so if there is none of the
// temporary one.
func (p *PendingFile) hasName(ctx context.Context) (bool, error) {
	_, err := p.c.sess.stat(ctx, p.name)
	if ntstatus.Of(err) == ntstatus.ObjectNameNotFound {
		return true, nil
	}
	return false, err
}

// Close deletes the file unless it was committed, or may have been. A second Close does nothing.
func (p *PendingFile) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return nil
	}
	p.done = true
	return p.File.Close()
}
