package lwio

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"lwio/internal/host"
	"lwio/internal/smb/smbwire"
)

// Client is a connection to one share of a server. Safe for concurrent use.
type Client struct {
	cfg    Config
	target Target
	sess   session
	server netip.Addr // where SMB was reached

	rails       []*rail            // none if there is no RDMA for good
	withoutRDMA string             // why
	stop        context.CancelFunc // ends the keepers, if there are rails
	keepers     sync.WaitGroup
	buffers     bufferTable
	calls       sync.Pool // of queues for blocking calls

	overRDMA                      traffic
	overSMB                       traffic
	counts                        counts
	connections, lost, reconnects atomic.Uint64
	belated                       atomic.Uint64 // connections that are the first of their rails, and came after Dial
	turn                          atomic.Uint32 // which rail comes first among equals
	orphans                       atomic.Int32  // rails with writes that are uncertain and may still be going on
	readsAgain, writesAgain       atomic.Uint64
	closed                        atomic.Bool
	closing                       sync.Once
}

// Transport says what carries data now, and why.
func (c *Client) Transport() Transport {
	if len(c.rails) == 0 {
		if c.closed.Load() {
			return Transport{Name: TransportSMB, Reason: errClientClosed.Error()}
		}
		return Transport{Name: TransportSMB, Reason: c.withoutRDMA}
	}
	var t Transport
	up := 0
	for _, r := range c.rails {
		rt := r.transport()
		if rt.RDMA() {
			up++
		}
		if up == 1 || t.Name == "" {
			t = rt
		}
	}
	t.Connections = up
	if n := len(c.rails); n > 1 {
		t.Reason += fmt.Sprintf("; %d of %d connections", up, n)
	}
	if n := c.belated.Load(); n > 0 && t.RDMA() {
		t.Reason += fmt.Sprintf("; %d came after Dial", n)
	}
	if n := c.reconnects.Load(); n > 0 && t.RDMA() {
		t.Reason += fmt.Sprintf("; took the place of a lost connection %d times", n)
	}
	return t
}

// live returns the RDMA connection, nil if there is none now.
func (c *Client) live() *conn {
	for _, r := range c.rails {
		if cn := r.live(); cn != nil {
			return cn
		}
	}
	return nil
}

// Stats returns the counters.
func (c *Client) Stats() Stats {
	var s Stats
	for _, r := range c.rails {
		if cn := r.live(); cn != nil { // which notices, and counts, a loss
			s.Credits += cn.credits.current()
			s.InFlight += int(cn.wanting.Load())
		}
	}
	s.RDMA, s.SMB = c.overRDMA.snapshot(), c.overSMB.snapshot()
	s.Connections, s.Lost, s.Reconnects = c.connections.Load(), c.lost.Load(), c.reconnects.Load()
	s.ReplayedReads, s.ReplayedWrites = c.readsAgain.Load(), c.writesAgain.Load()
	c.counts.snapshot(&s)
	s.CPU = host.CPUTime()
	return s
}

// smbDepth is how many calls are worth having in flight over SMB alone.
const smbDepth = 16

// Credits is how many calls are worth having in flight: the messages that the
// server grants on the RDMA connections, or what is good for SMB. More calls wait.
func (c *Client) Credits() int {
	sum := 0
	for _, r := range c.rails {
		if cn := r.live(); cn != nil {
			sum += cn.credits.current()
		}
	}
	if sum == 0 {
		return smbDepth
	}
	return sum
}

// Close ends the RDMA connections and the SMB session, and waits for both: a second at most
// for a server that does not take leave. Files
// that are still open are closed by the server. A second Close does nothing but wait for
// the first, if that is not done yet.
func (c *Client) Close() (err error) {
	c.closing.Do(func() {
		c.closed.Store(true)
		err = c.end()
	})
	return err
}

// end is what Close does once.
func (c *Client) end() error {
	if c.stop != nil {
		c.stop()
	}
	ends := make([]*conn, len(c.rails))
	for i, r := range c.rails {
		ends[i] = r.end(errClientClosed)
	}
	c.keepers.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	for _, cn := range ends { // all at once
		if cn != nil {
			cn.fail(net.ErrClosed)
		}
	}
	for _, cn := range ends {
		if cn != nil {
			<-cn.gone
		}
	}
	return wrap("close", c.target.Host, c.sess.close(ctx))
}

// Open opens a file for reading.
func (c *Client) Open(ctx context.Context, name string) (*File, error) {
	return c.OpenFile(ctx, name, os.O_RDONLY, 0)
}

// Create creates a file, or empties it if it exists, and opens it for reading and
// writing.
func (c *Client) Create(ctx context.Context, name string) (*File, error) {
	return c.OpenFile(ctx, name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// OpenFile opens a file as the flags of package os say: O_RDONLY, O_WRONLY or
// O_RDWR with O_CREATE, O_EXCL, O_TRUNC and O_SYNC (a write is on stable storage
// when it returns), and Unbuffered. There is no O_APPEND. Others may have the file open at the same
// time. A new file gets the server's permissions; the mode is not used, because SMB
// carries none.
//
// Errors: fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrInvalid for a name
// that SMB cannot carry, syscall.EISDIR for a directory.
func (c *Client) OpenFile(ctx context.Context, name string, flag int, _ fs.FileMode) (*File, error) {
	req, err := openFlags(flag)
	if err != nil {
		return nil, wrap("open", name, err)
	}
	f, err := c.open(ctx, name, req)
	if err != nil {
		return nil, wrap("open", name, err)
	}
	return f, nil
}

// openFlags translates the flags of package os.
func openFlags(flag int) (openRequest, error) {
	req := openRequest{share: shareAll, options: optionNonDirectory, resumeKey: true}
	switch flag & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR) {
	case os.O_RDONLY:
		req.access = accessRead
	case os.O_WRONLY:
		req.access = accessWrite
	case os.O_RDWR:
		req.access = accessRead | accessWrite
	default:
		return req, fmt.Errorf("%w flags", fs.ErrInvalid)
	}
	if flag&os.O_APPEND != 0 {
		return req, fmt.Errorf("O_APPEND: %w", errors.ErrUnsupported)
	}
	switch flag & (os.O_CREATE | os.O_EXCL | os.O_TRUNC) {
	case os.O_CREATE:
		req.disposition = dispositionOpenIf
	case os.O_CREATE | os.O_EXCL, os.O_CREATE | os.O_EXCL | os.O_TRUNC:
		req.disposition = dispositionCreate
	case os.O_TRUNC, os.O_TRUNC | os.O_EXCL:
		req.disposition = dispositionOverwrite
	case os.O_CREATE | os.O_TRUNC:
		req.disposition = dispositionOverwriteIf
	default:
		req.disposition = dispositionOpen
	}
	if flag&os.O_SYNC != 0 {
		req.options |= optionWriteThrough
	}
	if flag&Unbuffered != 0 {
		req.options |= optionUnbuffered
	}
	return req, nil
}

// open opens a file or directory.
func (c *Client) open(ctx context.Context, name string, req openRequest) (*File, error) {
	h, clean, err := c.handle(ctx, name, req)
	if err != nil {
		return nil, err
	}
	return &File{
		c: c, name: clean, h: h, options: req.options,
		regs: make([]atomic.Pointer[registration], len(c.rails)), registering: tokens(len(c.rails)),
	}, nil
}

// handle checks the name and sends the CREATE.
func (c *Client) handle(ctx context.Context, name string, req openRequest) (handle, string, error) {
	clean, err := smbwire.CleanPath(name)
	if err != nil {
		return nil, "", err
	}
	if c.closed.Load() {
		return nil, "", errClientClosed
	}
	ctx, cancel := c.cfg.bounded(ctx)
	defer cancel()
	if req.disposition != dispositionOpen {
		if err := c.fence(ctx); err != nil {
			return nil, "", err
		}
	}
	req.name = clean
	req.resumeKey = req.resumeKey && c.live() != nil
	h, err := c.sess.open(ctx, req)
	return h, clean, err
}

// Stat describes a file or directory. Sys of what it returns is an *Info.
func (c *Client) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	var e entry
	clean, err := c.named(ctx, name, func(ctx context.Context, clean string) (err error) {
		e, err = c.sess.stat(ctx, clean)
		return err
	})
	if err != nil {
		return nil, wrap("stat", name, err)
	}
	return infoOf(clean, e), nil
}

// named checks a name and calls do with it and a deadline.
func (c *Client) named(ctx context.Context, name string, do func(ctx context.Context, clean string) error) (string, error) {
	clean, err := smbwire.CleanPath(name)
	if err != nil {
		return "", err
	}
	if c.closed.Load() {
		return "", errClientClosed
	}
	ctx, cancel := c.cfg.bounded(ctx)
	defer cancel()
	return clean, do(ctx, clean)
}

// errRoot refuses to create, remove or rename the root of the share.
var errRoot = errors.New("this is the root of the share")

// change is named for what changes something other than the root.
func (c *Client) change(ctx context.Context, name string, do func(ctx context.Context, clean string) error) error {
	_, err := c.named(ctx, name, func(ctx context.Context, clean string) error {
		if clean == "" {
			return errRoot
		}
		if err := c.fence(ctx); err != nil {
			return err
		}
		return do(ctx, clean)
	})
	return err
}

// ReadDir lists a directory, sorted by name.
//
// Errors: fs.ErrNotExist, syscall.ENOTDIR.
func (c *Client) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	ctx, cancel := c.cfg.bounded(ctx)
	defer cancel()
	h, _, err := c.handle(ctx, name, openRequest{access: accessRead, share: shareAll, disposition: dispositionOpen, options: optionDirectory})
	if err != nil {
		return nil, wrap("readdir", name, err)
	}
	list, err := listing(ctx, h)
	if e := closeHandle(ctx, &c.cfg, h); err == nil {
		err = e
	}
	if err != nil {
		return nil, wrap("readdir", name, err)
	}
	return list, nil
}

// listing reads the entries of an open directory.
func listing(ctx context.Context, h handle) ([]fs.DirEntry, error) {
	entries, err := h.entries(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]fs.DirEntry, 0, len(entries))
	for _, e := range entries {
		if smbwire.IsElement(e.name) {
			list = append(list, &fileInfo{e.name, e})
		}
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

// closeHandle closes h even if ctx has ended, so that nothing stays open at the
// server.
func closeHandle(ctx context.Context, cfg *Config, h handle) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.Timeout)
	defer cancel()
	return h.close(ctx)
}

// Mkdir makes a directory. The mode is not used, because SMB carries none.
//
// Errors: fs.ErrExist, fs.ErrNotExist if the parent is missing; ErrUncertain together with the
// cause if the answer did not come.
func (c *Client) Mkdir(ctx context.Context, name string, _ fs.FileMode) error {
	return wrap("mkdir", name, c.change(ctx, name, c.sess.mkdir))
}

// Remove removes a file or an empty directory.
//
// Errors: fs.ErrNotExist, syscall.ENOTEMPTY; ErrUncertain together with the cause if the answer
// did not come.
func (c *Client) Remove(ctx context.Context, name string) error {
	return wrap("remove", name, c.change(ctx, name, c.sess.remove))
}

// Rename moves a file or directory within the share. A file that is in the way is
// replaced, unless somebody has it open.
//
// Errors: fs.ErrNotExist; fs.ErrPermission, among other reasons for what is in the way and
// is open, or a directory; ErrUncertain together with the cause if the answer did not come.
func (c *Client) Rename(ctx context.Context, from, to string) error {
	clean, err := smbwire.CleanPath(to)
	switch {
	case err != nil:
		return wrap("rename", to, err)
	case clean == "":
		return wrap("rename", to, errRoot)
	}
	return wrap("rename", from, c.change(ctx, from, func(ctx context.Context, name string) error {
		return c.sess.rename(ctx, name, clean)
	}))
}
