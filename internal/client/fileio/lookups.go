package fileio

import (
	"context"
	"errors"
	"sync"

	"lwio/internal/client/rdmaconn"
	"lwio/internal/client/smbshare"
	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbclient"
	"lwio/internal/wire"
)

// lookupsBeforeOpening is the number of descriptions by name over SMB before the root of the share is opened for
// LOOKUP.
const lookupsBeforeOpening = 1

// lookups describe files and directories by name over an RDMA connection, on which the root of the share is
// registered. Safe for concurrent use.
//
// Source: [OP-118]
type lookups struct {
	mu      sync.Mutex // guards the following fields
	asked   int        // descriptions before the root was opened, up to lookupsBeforeOpening
	opening bool
	root    *File          // nil until it is open
	failed  *rdmaconn.Conn // the connection with which the root could not be opened
}

// describeName asks the server to describe a file or a directory: by LOOKUP, or over SMB if there is no connection that
// takes it.
func (c *Client) describeName(ctx context.Context, clean string) (smbshare.Entry, error) {
	if e, ok, err := c.lookUp(ctx, clean); ok {
		return e, err
	}
	return c.sess.Stat(ctx, clean)
}

// lookUp is describeName by LOOKUP. ok is false if it has to go over SMB.
func (c *Client) lookUp(ctx context.Context, clean string) (e smbshare.Entry, ok bool, err error) {
	if len(clean) > wire.MaxLookup {
		return e, false, nil
	}
	root := c.names.of(ctx, c)
	if root == nil {
		return e, false, nil
	}
	e, ok, err = root.ask(ctx, clean, wire.NewLookup)
	if errors.Is(err, ntstatus.FileNotAvailable) {
		return e, false, nil // the call over SMB waits for the file
	}
	return e, ok, err
}

// of returns the root of the share, which it opens if names are asked for again and again; nil if there is none.
func (l *lookups) of(ctx context.Context, c *Client) *File {
	cn := c.takesLookups()
	if cn == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.root != nil && l.root.h.Err() == nil:
		return l.root
	case l.opening || l.failed == cn:
		return nil
	case l.asked < lookupsBeforeOpening:
		l.asked++
		return nil
	}
	l.opening, l.root = true, nil
	l.mu.Unlock()
	root, err := c.OpenEntry(ctx, "", smbshare.OpenRequest{
		Access: smbshare.AccessReadAttributes, Share: smbshare.ShareAll, Disposition: smbshare.DispositionOpen,
		Options: smbshare.OptionDirectory, ResumeKey: true,
	})
	l.mu.Lock()
	l.opening = false
	if err != nil {
		if smbclient.Refused(err) {
			l.failed = cn
		}
		return nil
	}
	l.root = root
	return root
}

// takesLookups returns a connection that takes LOOKUP, or nil.
func (c *Client) takesLookups() *rdmaconn.Conn {
	for _, r := range c.Paths {
		if cn := r.Live(); cn != nil && cn.Limits.Names {
			return cn
		}
	}
	return nil
}
