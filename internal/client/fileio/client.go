package fileio

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"lwio/internal/client/base"
	"lwio/internal/client/paths"
	"lwio/internal/client/rdmaconn"
	"lwio/internal/client/smbshare"
	"lwio/internal/host"
	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// Client is the engine of an lwio.Client.
type Client struct {
	paths.Set
	sess      smbshare.Session
	calls     sync.Pool // of queues for blocking calls
	freeCalls sync.Pool // of rdmaconn.FileCalls
	names     lookups

	overRDMA                base.TrafficCounter
	overSMB                 base.TrafficCounter
	readsAgain, writesAgain atomic.Uint64
	fileCalls               atomic.Uint64 // over RDMA
	closing                 sync.Once
}

// Stats returns the counters of the client, summed over its paths.
func (c *Client) Stats() base.Stats {
	var s base.Stats
	for _, r := range c.Paths {
		if cn := r.Live(); cn != nil { // which notices, and counts, a loss
			granted, _ := cn.Credits()
			s.Credits += granted
			s.InFlight += cn.Pending()
		}
	}
	s.RDMA, s.SMB = c.overRDMA.Snapshot(), c.overSMB.Snapshot()
	s.Connects, s.Lost, s.Reconnects = c.Connections.Load(), c.Lost.Load(), c.Reconnects.Load()
	s.ReplayedReads, s.ReplayedWrites = c.readsAgain.Load(), c.writesAgain.Load()
	s.FileCalls = c.fileCalls.Load()
	st := c.sess.State()
	s.SMBReconnects, s.Reclaimed = st.Reconnects, st.Reclaimed
	c.Counts.Snapshot(&s)
	s.ProcessCPU = host.CPUTime()
	return s
}

// Close ends the paths and the SMB session, within one second. A second Close waits for the first.
func (c *Client) Close() (err error) {
	c.closing.Do(func() {
		c.Closed.Store(true)
		err = c.end()
	})
	return err
}

// end does the work of Close once.
func (c *Client) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), rdmaconn.CloseGrace)
	defer cancel()
	c.Set.End()
	return base.Wrap("close", c.Target, c.sess.Close(ctx))
}

// Open opens an existing file for reading.
func (c *Client) Open(ctx context.Context, name string) (*File, error) {
	return c.OpenFile(ctx, name, os.O_RDONLY, 0)
}

// Create creates or empties a file and opens it for reading and writing.
func (c *Client) Create(ctx context.Context, name string) (*File, error) {
	return c.OpenFile(ctx, name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// OpenFile opens a file with flags of package os and Unbuffered. The permissions are not used.
func (c *Client) OpenFile(ctx context.Context, name string, flag int, _ fs.FileMode) (*File, error) {
	req, err := openFlags(flag)
	if err != nil {
		return nil, base.Wrap("open", name, err)
	}
	f, err := c.OpenEntry(ctx, name, req)
	if err != nil {
		return nil, base.Wrap("open", name, err)
	}
	return f, nil
}

// openFlags translates the flags of package os.
func openFlags(flag int) (smbshare.OpenRequest, error) {
	req := smbshare.OpenRequest{Share: smbshare.ShareAll, Options: smbshare.OptionNonDirectory, ResumeKey: true}
	switch flag & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR) {
	case os.O_RDONLY:
		req.Access = smbshare.AccessRead
	case os.O_WRONLY:
		req.Access = smbshare.AccessWrite
	case os.O_RDWR:
		req.Access = smbshare.AccessRead | smbshare.AccessWrite
	default:
		return req, fmt.Errorf("%w flags", fs.ErrInvalid)
	}
	if flag&os.O_APPEND != 0 {
		return req, fmt.Errorf("O_APPEND: %w", errors.ErrUnsupported)
	}
	switch flag & (os.O_CREATE | os.O_EXCL | os.O_TRUNC) {
	case os.O_CREATE:
		req.Disposition = smbshare.DispositionOpenIf
	case os.O_CREATE | os.O_EXCL, os.O_CREATE | os.O_EXCL | os.O_TRUNC:
		req.Disposition = smbshare.DispositionCreate
	case os.O_TRUNC, os.O_TRUNC | os.O_EXCL:
		req.Disposition = smbshare.DispositionOverwrite
	case os.O_CREATE | os.O_TRUNC:
		req.Disposition = smbshare.DispositionOverwriteIf
	default:
		req.Disposition = smbshare.DispositionOpen
	}
	if flag&os.O_SYNC != 0 {
		req.Options |= smbshare.OptionWriteThrough
	}
	if flag&Unbuffered != 0 {
		req.Options |= smbshare.OptionUnbuffered
	}
	return req, nil
}

// OpenEntry opens a file or directory.
func (c *Client) OpenEntry(ctx context.Context, name string, req smbshare.OpenRequest) (*File, error) {
	h, clean, err := c.handle(ctx, name, req)
	if err != nil {
		return nil, err
	}
	return &File{
		c: c, name: clean, h: h, options: req.Options,
		regs: make([]atomic.Pointer[registration], len(c.Paths)), registering: tokens(len(c.Paths)), syncs: fileSyncs{turn: make(chan struct{}, 1)},
	}, nil
}

// handle checks the name and sends the CREATE.
func (c *Client) handle(ctx context.Context, name string, req smbshare.OpenRequest) (smbshare.Handle, string, error) {
	clean, err := smbwire.CleanPath(name)
	if err != nil {
		return nil, "", err
	}
	if c.Closed.Load() {
		return nil, "", base.ErrClientClosed
	}
	ctx, cancel := c.Cfg.Bounded(ctx)
	defer cancel()
	if req.Disposition != smbshare.DispositionOpen {
		if err := c.Fence(ctx); err != nil {
			return nil, "", err
		}
	}
	req.Name = clean
	req.ResumeKey = req.ResumeKey && c.Live() != nil
	h, err := c.sess.Open(ctx, req)
	return h, clean, err
}

// Stat asks the server to describe a file or directory.
func (c *Client) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	var e smbshare.Entry
	clean, err := c.named(ctx, name, func(ctx context.Context, clean string) (err error) {
		e, err = c.describeName(ctx, clean)
		return err
	})
	if err != nil {
		return nil, base.Wrap("stat", name, err)
	}
	return smbshare.InfoOf(clean, e), nil
}

// Space asks the server for the size of the file system of the share.
func (c *Client) Space(ctx context.Context) (s smbshare.Space, err error) {
	_, err = c.named(ctx, "", func(ctx context.Context, _ string) (err error) {
		s, err = c.sess.Space(ctx)
		return err
	})
	return s, base.Wrap("space", "", err)
}

// named checks a name and calls do with it and a deadline.
func (c *Client) named(ctx context.Context, name string, do func(ctx context.Context, clean string) error) (string, error) {
	clean, err := smbwire.CleanPath(name)
	if err != nil {
		return "", err
	}
	if c.Closed.Load() {
		return "", base.ErrClientClosed
	}
	ctx, cancel := c.Cfg.Bounded(ctx)
	defer cancel()
	return clean, do(ctx, clean)
}

// errRoot refuses to create, remove or rename the root of the share.
var errRoot = errors.New("this is the root of the share")

// change is named for changes of anything but the root.
func (c *Client) change(ctx context.Context, name string, do func(ctx context.Context, clean string) error) error {
	_, err := c.named(ctx, name, func(ctx context.Context, clean string) error {
		if clean == "" {
			return errRoot
		}
		if err := c.Fence(ctx); err != nil {
			return err
		}
		return do(ctx, clean)
	})
	return err
}

// ReadDir lists a directory, sorted by name. With an error it returns the entries that it could read.
func (c *Client) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	var list []fs.DirEntry
	small := false
	_, err := c.named(ctx, name, func(ctx context.Context, clean string) (err error) {
		var entries []smbshare.Entry
		entries, small, err = c.sess.ListSmall(ctx, clean)
		list = sorted(entries)
		return err
	})
	if small || err != nil {
		return list, base.Wrap("readdir", name, err)
	}
	list, err = c.listOpened(ctx, name)
	return list, base.Wrap("readdir", name, err)
}

// listOpened is ReadDir by an open, an enumeration and a close.
func (c *Client) listOpened(ctx context.Context, name string) ([]fs.DirEntry, error) {
	ctx, cancel := c.Cfg.Bounded(ctx)
	defer cancel()
	h, _, err := c.handle(ctx, name, smbshare.OpenRequest{Access: smbshare.AccessRead, Share: smbshare.ShareAll, Disposition: smbshare.DispositionOpen, Options: smbshare.OptionDirectory})
	if err != nil {
		return nil, err
	}
	list, err := listing(ctx, h)
	if e := closeHandle(ctx, &c.Cfg, h); err == nil {
		err = e
	}
	return list, err
}

// listing returns the entries of an open directory, sorted by name. With an error it returns the
// entries that it could read.
func listing(ctx context.Context, h smbshare.Handle) ([]fs.DirEntry, error) {
	entries, err := h.Entries(ctx)
	return sorted(entries), err
}

// sorted returns entries with names of one element, by name.
func sorted(entries []smbshare.Entry) []fs.DirEntry {
	list := make([]fs.DirEntry, 0, len(entries))
	for _, e := range entries {
		if smbwire.IsElement(e.Name) {
			list = append(list, smbshare.InfoOf(e.Name, e))
		}
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list
}

// closeHandle closes h even if ctx has ended, so that nothing stays open at the
// server.
func closeHandle(ctx context.Context, cfg *base.Config, h smbshare.Handle) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.Timeout)
	defer cancel()
	return h.Close(ctx)
}

// Mkdir creates a directory, after the fence of broken connections. The mode is not used.
func (c *Client) Mkdir(ctx context.Context, name string, _ fs.FileMode) error {
	return base.Wrap("mkdir", name, c.change(ctx, name, c.sess.Mkdir))
}

// Remove removes a file or an empty directory, after the fence of broken connections. A file that is read-only loses that
// attribute first.
func (c *Client) Remove(ctx context.Context, name string) error {
	return base.Wrap("remove", name, c.change(ctx, name, func(ctx context.Context, name string) error {
		err := c.sess.Remove(ctx, name)
		if !errors.Is(err, ntstatus.CannotDelete) {
			return err
		}
		if e, failed := c.sess.Stat(ctx, name); failed != nil || e.IsDir() || !e.ReadOnly() {
			return err
		}
		if failed := c.sess.SetBasic(ctx, name, smbshare.Writability(true)); failed != nil {
			return err
		}
		if err = c.sess.Remove(ctx, name); err != nil && !errors.Is(err, base.ErrUncertain) {
			_ = c.sess.SetBasic(ctx, name, smbshare.Writability(false)) // the error of Remove is the one to report
		}
		return err
	}))
}

// SyncDir returns when the names in a directory are on stable storage.
func (c *Client) SyncDir(ctx context.Context, name string) error {
	ctx, cancel := c.Cfg.Bounded(ctx)
	defer cancel()
	h, _, err := c.handle(ctx, name, smbshare.OpenRequest{Access: smbshare.AccessRead, Share: smbshare.ShareAll, Disposition: smbshare.DispositionOpen, Options: smbshare.OptionDirectory})
	if err != nil {
		return base.Wrap("sync", name, err)
	}
	_, err = h.Flush(ctx)
	if e := closeHandle(ctx, &c.Cfg, h); err == nil {
		err = e
	}
	return base.Wrap("sync", name, err)
}

// Rename moves a file or directory within the share, after the fence of broken connections.
func (c *Client) Rename(ctx context.Context, from, to string) error {
	clean, err := smbwire.CleanPath(to)
	switch {
	case err != nil:
		return base.Wrap("rename", to, err)
	case clean == "":
		return base.Wrap("rename", to, errRoot)
	}
	return base.Wrap("rename", from, c.change(ctx, from, func(ctx context.Context, name string) error {
		return c.sess.Rename(ctx, name, clean)
	}))
}

// OpenDir opens a file or directory for reading.
func (c *Client) OpenDir(ctx context.Context, name string) (*File, error) {
	return c.OpenEntry(ctx, name, smbshare.OpenRequest{Access: smbshare.AccessRead, Share: smbshare.ShareAll, Disposition: smbshare.DispositionOpen, ResumeKey: true})
}

// ReadDir lists a directory that is open.
func (f *File) ReadDir(ctx context.Context) ([]fs.DirEntry, error) {
	if err := f.check(ctx, 0, 0); err != nil {
		return nil, err
	}
	ctx, cancel := f.c.Cfg.Bounded(ctx)
	defer cancel()
	return listing(ctx, f.h)
}
