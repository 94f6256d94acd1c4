package lwio

import (
	"context"
	"io/fs"

	"lwio/internal/client/base"
	"lwio/internal/client/fileio"
)

// Dial connects to the server and the share that rawURL names: an SMB session,
// and an RDMA connection if both sides have a provider in common. The path of the
// URL is not used. An RDMA connection that cannot be made now is tried again later, see
// Config.Reconnect. ?provider=smb in the URL is Config.SMBOnly; ?provider= with the
// name of an RDMA provider uses that one alone and is Config.RequireRDMA. cfg may
// be nil.
//
// Errors: *Error: ECONNREFUSED and the like, fs.ErrPermission for a wrong user name
// or password, fs.ErrNotExist for an unknown share, [ErrNoRDMA] with RequireRDMA,
// [ErrSpoofed] among its causes.
//
// Source: [LWIO §Discovery], [LWIO §Network Discovery], [LWIO claim 7], [LWIO claim 9]
func Dial(ctx context.Context, rawURL string, cfg *Config) (*Client, error) {
	t, err := ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	return DialTarget(ctx, t, cfg)
}

// DialTarget is Dial with a URL that was parsed, and perhaps given a password,
// before.
func DialTarget(ctx context.Context, t *Target, cfg *Config) (*Client, error) {
	var settings base.Config
	if cfg != nil {
		settings = base.Config(*cfg)
	}
	if settings.Providers == nil {
		settings.Providers = DefaultProviders()
	}
	c, err := fileio.DialTarget(ctx, (*base.Target)(t), &settings)
	if err != nil {
		return nil, err
	}
	return &Client{c}, nil
}

// Client is a connection to one share of a server. Safe for concurrent use.
type Client struct{ c *fileio.Client }

// Transport describes the carrier of data now, with the reason.
func (c *Client) Transport() Transport { return Transport(c.c.Transport()) }

// Stats returns the counters.
func (c *Client) Stats() Stats {
	s := c.c.Stats()
	return Stats{
		RDMA: Traffic(s.RDMA), SMB: Traffic(s.SMB), Credits: s.Credits, InFlight: s.InFlight,
		Polled: s.Polled, Interrupts: s.Interrupts, WakeUps: s.WakeUps, SpuriousWakeUps: s.SpuriousWakeUps,
		Cancels: s.Cancels, Latency: s.Latency, CPU: s.CPU,
		Connections: s.Connections, Lost: s.Lost, Reconnects: s.Reconnects,
		ReplayedReads: s.ReplayedReads, ReplayedWrites: s.ReplayedWrites,
	}
}

// Credits is how many calls are worth having in flight: the messages that the
// server grants on the RDMA connections, or a number that suits SMB. More calls wait.
func (c *Client) Credits() int { return c.c.Credits() }

// Close ends the RDMA connections and the SMB session, and waits for both: a second at most
// for a server that does not take leave. Files
// that are still open are closed by the server. A second Close does nothing but wait for
// the first, if that is not done yet.
func (c *Client) Close() error { return c.c.Close() }

// Open opens a file for reading.
func (c *Client) Open(ctx context.Context, name string) (*File, error) {
	return fileOf(c.c.Open(ctx, name))
}

// Create creates a file, or empties it if it exists, and opens it for reading and
// writing.
func (c *Client) Create(ctx context.Context, name string) (*File, error) {
	return fileOf(c.c.Create(ctx, name))
}

// OpenFile opens a file as the flags of package os say: O_RDONLY, O_WRONLY or
// O_RDWR with O_CREATE, O_EXCL, O_TRUNC and O_SYNC (a write is on stable storage
// when it returns), and Unbuffered. There is no O_APPEND. Others may have the file open at the same
// time. A new file gets the server's permissions; the mode is not used, because SMB
// carries none.
//
// Errors: fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrInvalid for a name
// that SMB cannot carry, syscall.EISDIR for a directory.
func (c *Client) OpenFile(ctx context.Context, name string, flag int, perm fs.FileMode) (*File, error) {
	return fileOf(c.c.OpenFile(ctx, name, flag, perm))
}

// Stat describes a file or directory. Its Sys is an *Info.
func (c *Client) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return infoOf(c.c.Stat(ctx, name))
}

// ReadDir lists a directory, sorted by name.
//
// Errors: fs.ErrNotExist, syscall.ENOTDIR.
func (c *Client) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	return entriesOf(c.c.ReadDir(ctx, name))
}

// Mkdir makes a directory. The mode is not used, because SMB carries none.
//
// Errors: fs.ErrExist, fs.ErrNotExist if the parent is missing; ErrUncertain together with the
// cause if the answer did not come.
func (c *Client) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	return c.c.Mkdir(ctx, name, perm)
}

// Remove removes a file or an empty directory.
//
// Errors: fs.ErrNotExist, syscall.ENOTEMPTY; ErrUncertain together with the cause if the answer
// did not come.
func (c *Client) Remove(ctx context.Context, name string) error { return c.c.Remove(ctx, name) }

// Rename moves a file or directory within the share. A file that is in the way is
// replaced, unless it is open.
//
// Errors: fs.ErrNotExist; fs.ErrPermission, among other reasons for a target that
// is open, or a directory; ErrUncertain together with the cause if the answer did not come.
func (c *Client) Rename(ctx context.Context, from, to string) error {
	return c.c.Rename(ctx, from, to)
}
