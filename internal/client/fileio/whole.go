package fileio

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"sync"

	"lwio/internal/client/base"
	"lwio/internal/client/smbshare"
	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbclient"
	"lwio/internal/smb/smbwire"
)

// maxFirstRead bounds the memory that ReadFile takes before it has seen the bytes: the server states the size
// of a file.
const maxFirstRead = 64 << 20

// heads has the memory of ReadFile for small files.
var heads = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// ReadHead reads the first bytes of a file into p, and describes the file. Small ones come over SMB, in one
// round trip with the open, unless Config.RequireRDMA is set.
func (c *Client) ReadHead(ctx context.Context, name string, p []byte) (int, fs.FileInfo, error) {
	if c.Cfg.RequireRDMA || len(p) > c.sess.MaxSmall() {
		return c.readOpened(ctx, name, p)
	}
	var e smbshare.Entry
	n := 0
	clean, err := c.named(ctx, name, func(ctx context.Context, clean string) (err error) {
		n, e, err = c.sess.ReadHead(ctx, clean, p)
		return err
	})
	if err != nil {
		return 0, nil, base.Wrap("read", name, err)
	}
	c.overSMB.Read(n)
	return n, smbshare.InfoOf(clean, e), nil
}

// readOpened is ReadHead by an open, a read and a close.
func (c *Client) readOpened(ctx context.Context, name string, p []byte) (int, fs.FileInfo, error) {
	f, err := c.Open(ctx, name)
	if err != nil {
		return 0, nil, err
	}
	info := f.OpenInfo()
	n, err := f.ReadAtContext(ctx, p[:min(int64(len(p)), info.Size())], 0)
	if err = errors.Join(notEOF(err), f.Close()); err != nil {
		return n, nil, err
	}
	return n, info, nil
}

// notEOF is err, or nil for the end of the file.
func notEOF(err error) error {
	if err == io.EOF { //nolint:errorlint // bare io.EOF is part of the contract of io.ReaderAt
		return nil
	}
	return err
}

// ReadFile reads a file whole: a small one as ReadHead does, and a larger one through one open.
func (c *Client) ReadFile(ctx context.Context, name string) ([]byte, error) {
	head := heads.Get().(*[]byte)
	defer heads.Put(head)
	n, info, err := c.ReadHead(ctx, name, (*head)[:min(len(*head), c.sess.MaxSmall())])
	switch {
	case err != nil:
		return nil, err
	case info.Size() <= int64(n):
		return append(make([]byte, 0, n), (*head)[:n]...), nil
	}
	f, err := c.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	b, err := f.readAll(ctx)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return b, nil
}

// readAll reads the whole file.
func (f *File) readAll(ctx context.Context) ([]byte, error) {
	// One byte more than the file has tells whether it has grown.
	b := make([]byte, min(f.OpenInfo().Size(), maxFirstRead)+1)
	for n := 0; ; b = append(b, make([]byte, len(b))...) {
		m, err := f.ReadAtContext(ctx, b[n:], int64(n))
		n += m
		if err != nil {
			return b[:n], notEOF(err)
		}
	}
}

// WriteFile gives a file new content: until it returns, the name stands for the old content or the new. Small
// content goes over SMB, in one round trip if the server can do that, else with the creation of the file, unless
// Config.RequireRDMA is set. The file has times and attributes b.
func (c *Client) WriteFile(ctx context.Context, name string, data []byte, b smbshare.Basic) error {
	return base.Wrap("write", name, c.writeFile(ctx, name, data, b))
}

func (c *Client) writeFile(ctx context.Context, name string, data []byte, b smbshare.Basic) error {
	final, err := smbwire.CleanPath(name)
	switch {
	case err != nil:
		return err
	case final == "":
		return ntstatus.FileIsADirectory
	}
	small := !c.Cfg.RequireRDMA && len(data) <= c.sess.MaxSmall()
	if small {
		if done, err := c.writeWhole(ctx, smbshare.WholeFile{Name: final, Data: data, Basic: b}); done {
			return err
		}
	}
	if err := c.writeParts(ctx, final, small, data); err != nil || b == (smbshare.Basic{}) {
		return err
	}
	if err := c.setBasic(ctx, final, b); err != nil {
		return base.Uncertain(err)
	}
	return nil
}

// writeWhole is WriteFile in one round trip. It reports false if the server cannot do that.
func (c *Client) writeWhole(ctx context.Context, file smbshare.WholeFile) (done bool, err error) {
	err = c.change(ctx, file.Name, func(ctx context.Context, final string) error {
		return c.replacing(ctx, final, func() (err error) {
			done, err = c.sess.WriteWhole(ctx, file, func() string { return temporary(final) })
			return err
		})
	})
	if done && err == nil {
		c.overSMB.Wrote(len(file.Data))
	}
	return done || err != nil, err
}

// replacing calls do, which gives a file the name final. If the server refuses that because there is a read-only file,
// that one loses the attribute first, as POSIX has it.
func (c *Client) replacing(ctx context.Context, final string, do func() error) error {
	err := do()
	st := ntstatus.Of(err)
	if st != ntstatus.AccessDenied && st != ntstatus.ObjectNameCollision || !smbclient.Refused(err) || base.IsUncertain(err) {
		return err
	}
	ctx, cancel := c.Cfg.Bounded(ctx)
	defer cancel()
	e, failed := c.sess.Stat(ctx, final)
	switch {
	case failed != nil:
		return err
	case e.IsDir():
		return ntstatus.FileIsADirectory
	case !e.ReadOnly() || c.sess.SetBasic(ctx, final, smbshare.Writability(true)) != nil:
		return err
	}
	if err = do(); err != nil && !base.IsUncertain(err) {
		_ = c.sess.SetBasic(ctx, final, smbshare.Writability(false)) // err is the error to report
	}
	return err
}

// writeParts is WriteFile in several round trips. Small content goes with the creation.
func (c *Client) writeParts(ctx context.Context, final string, small bool, data []byte) error {
	if !small {
		return c.writePending(ctx, final, data)
	}
	p, err := c.pendingFile(ctx, final, true, data)
	if err != nil {
		return err
	}
	return c.commit(ctx, p)
}

// writePending is WriteFile for large content.
func (c *Client) writePending(ctx context.Context, name string, data []byte) error {
	p, err := c.createPending(ctx, name)
	if err != nil {
		return err
	}
	for losses := 0; ; losses++ { // only this call knows the file: a write in doubt may be done twice
		_, err = p.WriteAtContext(ctx, data, 0)
		if !base.IsUncertain(err) || !errors.Is(err, net.ErrClosed) || losses == maxLosses {
			break
		}
	}
	if err != nil {
		_ = p.Close() // if it fails, the end of the session deletes the file
		return err
	}
	return c.commit(ctx, p)
}

// commit commits a file, or gives it up.
func (c *Client) commit(ctx context.Context, p *PendingFile) error {
	err := p.Commit(ctx)
	for losses := 0; base.IsUncertain(err) && errors.Is(err, net.ErrClosed) && losses < maxLosses; losses++ {
		err = p.Commit(ctx)
	}
	if err == nil {
		return nil
	}
	_ = p.Close() // as above
	return err
}
