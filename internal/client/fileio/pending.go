package fileio

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"net"
	"os"
	"path"
	"sync"

	"lwio/internal/client/base"
	"lwio/internal/client/rdmaconn"
	"lwio/internal/client/smbshare"
	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbclient"
)

// PendingFile is the engine of an lwio.PendingFile.
type PendingFile struct {
	*File
	final string

	mu        sync.Mutex // guards the following fields
	done      bool       // committed or closed
	uncertain bool       // the server was asked for the final name, and the outcome is unknown
}

// CreatePending creates a file of a temporary name beside name. The server deletes it when it is
// closed, unless Commit has renamed it.
func (c *Client) CreatePending(ctx context.Context, name string) (*PendingFile, error) {
	p, err := c.createPending(ctx, name)
	if err != nil {
		return nil, base.Wrap("create", name, err)
	}
	return p, nil
}

func (c *Client) createPending(ctx context.Context, name string) (*PendingFile, error) {
	var e smbshare.Entry
	final, err := c.named(ctx, name, func(ctx context.Context, clean string) (err error) {
		e, err = c.sess.Stat(ctx, clean)
		return err
	})
	switch {
	case err == nil && e.IsDir():
		return nil, ntstatus.FileIsADirectory
	case final == "":
		return nil, err
	}
	return c.pendingFile(ctx, final, false, nil)
}

// pendingFile creates a file of a temporary name beside final, with data. With whole no other data will follow.
func (c *Client) pendingFile(ctx context.Context, final string, whole bool, data []byte) (*PendingFile, error) {
	req, err := openFlags(os.O_RDWR | os.O_CREATE | os.O_EXCL)
	if err != nil {
		return nil, err
	}
	req.Access |= smbshare.AccessDelete
	req.DeletePending, req.Data, req.ResumeKey = true, data, !whole
	f, err := c.OpenEntry(ctx, temporary(final), req)
	if err != nil {
		return nil, err
	}
	if whole {
		c.overSMB.Wrote(len(data))
	}
	return &PendingFile{File: f, final: final}, nil
}

// temporary returns a name beside final that no file has.
func temporary(final string) string {
	return path.Join(path.Dir(final), ".lwio-"+rand.Text()+".part")
}

// Name returns the name that Commit gives to the file.
func (p *PendingFile) Name() string { return p.final }

// Commit renames the file to its final name after all earlier writes, and closes it. If the outcome
// of the rename is unknown, Commit fails with ErrUncertain, and the next Commit asks the server first.
func (p *PendingFile) Commit(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return base.Wrap("commit", p.final, fs.ErrClosed)
	}
	err := p.c.replacing(ctx, p.final, func() error {
		err := p.ordered(ctx, p.rename)
		if err != nil && p.uncertain {
			err = base.Uncertain(err)
		}
		return err
	})
	if err != nil {
		return base.Wrap("commit", p.final, err)
	}
	p.done = true
	if err = p.File.Close(); err != nil {
		return &base.Error{Op: "commit", Name: p.final, Err: base.Uncertain(err)}
	}
	return nil
}

// rename renames the file, or ensures that it is deleted when it is closed. A file is not deleted
// while the outcome of its rename is unknown. Calls that were given up before have been answered. A
// rename that was lost with its session, and is not done, is sent again.
func (p *PendingFile) rename(ctx context.Context) error {
	if p.uncertain {
		named, err := p.hasName(ctx)
		if p.uncertain = err != nil; named || p.uncertain {
			return err
		}
	}
	for losses := 0; ; losses++ {
		lost, err := p.renameOnce(ctx)
		if !lost || losses == maxLosses {
			return err
		}
	}
}

// renameOnce is one attempt of rename. lost reports that the session was lost, and that another one says
// that the file does not have its final name.
func (p *PendingFile) renameOnce(ctx context.Context) (lost bool, err error) {
	if err = p.h.Keep(ctx, p.final); err == nil {
		return false, nil
	}
	asked := !smbshare.Unsent(err)
	lost = asked && errors.Is(err, net.ErrClosed) && p.h.Settle(ctx) == nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rdmaconn.CloseGrace)
	defer cancel()
	silent := p.h.Settle(ctx)
	if asked && !smbclient.Refused(err) {
		named, e := false, silent
		if e == nil {
			named, e = p.hasName(ctx)
		}
		switch p.uncertain = e != nil; {
		case named:
			return false, nil // it was renamed before it was given up
		case p.uncertain:
			return false, err
		case lost:
			return true, err
		}
	}
	// If this fails the server is silent, or the session lost, and a file of the temporary
	// name is left behind.
	_ = p.h.SetDelete(ctx, true)
	return false, err
}

// hasName tells whether the file has its final name, which is so if there is none of the
// temporary one.
func (p *PendingFile) hasName(ctx context.Context) (bool, error) {
	_, err := p.c.sess.Stat(ctx, p.name)
	switch ntstatus.Of(err) {
	case ntstatus.ObjectNameNotFound:
		return true, nil
	case ntstatus.DeletePending: // it has the temporary one, and its deletion was not taken back
		return false, nil
	}
	return false, err
}

// Close closes the file, which the server then deletes, unless Commit has succeeded before.
func (p *PendingFile) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return nil
	}
	p.done = true
	return p.File.Close()
}
