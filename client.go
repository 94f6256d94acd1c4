package lwio

import (
	"context"
	"io/fs"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/client/fileio"
)

// Dial connects to the server and the share of rawURL, in the form of [ParseURL]. It opens
// an SMB session and, if both sides have a provider in common, RDMA connections. Dial does
// not use the path of the URL. A client without RDMA tries again later, see
// Config.ReconnectTimeout. "?provider=smb" in the URL sets Config.SMBOnly. "?provider=NAME"
// with another name selects that provider alone and sets Config.RequireRDMA. cfg may be
// nil. The caller closes the client.
//
// Errors: *Error: syscall.ECONNREFUSED and other errors of the network; fs.ErrPermission for a
// wrong user name or password; fs.ErrNotExist for an unknown share; with RequireRDMA
// [ErrNoRDMA], which may wrap [ErrSpoofed].
//
// Source: [LWIO §Discovery], [LWIO §Network Discovery], [LWIO claim 7], [LWIO claim 9]
func Dial(ctx context.Context, rawURL string, cfg *Config) (*Client, error) {
	t, err := ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	return DialTarget(ctx, t, cfg)
}

// DialTarget is Dial for a parsed URL, so that a program can change the URL, for example its
// password.
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

// Client is a connection to one share of a server. Names of files are slash-separated and
// relative to the share. Safe for concurrent use.
type Client struct{ c *fileio.Client }

// Transport describes how data moves now, and why.
func (c *Client) Transport() Transport { return transportOf(c.c.Transport()) }

// Stats returns the counters of the client.
func (c *Client) Stats() Stats {
	s := c.c.Stats()
	return Stats{
		RDMA: Traffic(s.RDMA), SMB: Traffic(s.SMB), Credits: s.Credits, InFlight: s.InFlight,
		Polled: s.Polled, Interrupts: s.Interrupts, Wakeups: s.Wakeups, SpuriousWakeups: s.SpuriousWakeups,
		Cancels: s.Cancels, Latency: s.Latency, ProcessCPU: s.ProcessCPU,
		Connects: s.Connects, Lost: s.Lost, Reconnects: s.Reconnects,
		ReplayedReads: s.ReplayedReads, ReplayedWrites: s.ReplayedWrites,
		SMBReconnects: s.SMBReconnects, Reclaimed: s.Reclaimed, FileCalls: s.FileCalls,
	}
}

// MaxInFlight returns the number of calls that are worth having in flight: the credits of all
// RDMA connections together or, without RDMA, 16. Further calls wait for a credit. The number
// changes with the credits.
func (c *Client) MaxInFlight() int { return c.c.MaxInFlight() }

// Close ends the RDMA connections and the SMB session and waits for both, at most one second
// for a server that does not answer. The server closes the files that are still open. If the SMB
// connection is lost, Close makes another one for that, within the same second; otherwise the
// server keeps the files and their locks until their time without a connection is over. A second
// Close waits for the first and returns nil.
func (c *Client) Close() error { return c.c.Close() }

// Open opens a file for reading.
//
// Errors: as OpenFile.
func (c *Client) Open(ctx context.Context, name string) (*File, error) {
	return fileOf(c.c.Open(ctx, name))
}

// Create creates a file, or empties an existing one, and opens it for reading and writing.
//
// Errors: as OpenFile.
func (c *Client) Create(ctx context.Context, name string) (*File, error) {
	return fileOf(c.c.Create(ctx, name))
}

// OpenFile opens a file with flags of package os: O_RDONLY, O_WRONLY or O_RDWR, with O_CREATE,
// O_EXCL, O_TRUNC and O_SYNC, and with [Unbuffered]. With O_SYNC a write returns when its data
// is on stable storage. Other programs may have the file open at the same time. perm is not
// used, because SMB carries no mode: the server chooses the permissions of a new file.
//
// Errors: fs.ErrNotExist, fs.ErrExist, fs.ErrPermission; fs.ErrInvalid for a name that SMB
// cannot carry; syscall.EISDIR for a directory; errors.ErrUnsupported for O_APPEND.
func (c *Client) OpenFile(ctx context.Context, name string, flag int, perm fs.FileMode) (*File, error) {
	return fileOf(c.c.OpenFile(ctx, name, flag, perm))
}

// ReadHead reads the first bytes of a file into p, and describes the file as it was opened. n < len(p)
// without an error if the file is shorter. With p of at most 64 KiB it takes one round trip, over SMB, unless
// Config.RequireRDMA is set. p is not used after the return.
//
// Errors: as OpenFile and [File.ReadAtContext].
func (c *Client) ReadHead(ctx context.Context, name string, p []byte) (n int, info fs.FileInfo, err error) {
	n, info, err = c.c.ReadHead(ctx, name, p)
	info, err = infoOf(info, err)
	return n, info, err
}

// ReadFile returns the content of a file. The caller owns the result. It takes one round trip for up to
// 64 KiB, as ReadHead.
//
// Errors: as OpenFile and [File.ReadAtContext].
func (c *Client) ReadFile(ctx context.Context, name string) ([]byte, error) {
	return c.c.ReadFile(ctx, name)
}

// WriteFile makes data the content of a file, which it creates or replaces: at each time the name has all of
// the old content, or all of the new, and after an error that is not ErrUncertain it has the old. It does not
// wait for stable storage. Up to 64 KiB take one round trip, three with the SMB server of another project, unless
// Config.RequireRDMA is set. After a loss of the connection the file is written again. data is not used after the
// return. A file that is read-only is replaced too, as POSIX has it.
//
// Errors: as CreatePending, [File.WriteAtContext] and [PendingFile.Commit].
func (c *Client) WriteFile(ctx context.Context, name string, data []byte) error {
	return c.WriteFileWith(ctx, name, data, Attributes{})
}

// WriteFileWith is WriteFile for a file with times, or read-only. They take no further round trip if WriteFile takes
// one. Otherwise they are set after the content, and ErrUncertain with the cause says that only they are missing.
//
// Errors: as WriteFile.
func (c *Client) WriteFileWith(ctx context.Context, name string, data []byte, a Attributes) error {
	return c.c.WriteFile(ctx, name, data, a.basic())
}

// Stat describes a file or directory. The Sys method of the result returns an *SMBInfo.
//
// Errors: fs.ErrNotExist.
func (c *Client) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return infoOf(c.c.Stat(ctx, name))
}

// Space asks the server for the size of the file system of the share.
func (c *Client) Space(ctx context.Context) (Space, error) { return c.c.Space(ctx) }

// ReadDir lists a directory, sorted by name. With an error it returns the entries that it could
// read, like os.ReadDir.
//
// Errors: fs.ErrNotExist, syscall.ENOTDIR, fs.ErrInvalid for entries with names that Go strings or
// paths cannot represent.
func (c *Client) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	return entriesOf(c.c.ReadDir(ctx, name))
}

// Chtimes sets the times of the last access and the last write of a file or directory, in one round trip, as
// os.Chtimes: a zero time changes nothing. Times have units of 100 ns; a finer part is cut off.
//
// Errors: fs.ErrNotExist, fs.ErrPermission.
func (c *Client) Chtimes(ctx context.Context, name string, atime, mtime time.Time) error {
	return c.c.Chtimes(ctx, name, atime, mtime)
}

// Chmod makes a file writable or read-only, in one round trip, by the owner's permission to write in mode, as
// os.Chmod on Windows: SMB carries no other permission. A directory stays as it is. On a server of another project the
// attributes hidden and system are cleared.
//
// Errors: fs.ErrNotExist, fs.ErrPermission.
func (c *Client) Chmod(ctx context.Context, name string, mode fs.FileMode) error {
	return c.c.Chmod(ctx, name, mode)
}

// Mkdir creates a directory. perm is not used, because SMB carries no mode.
//
// Errors: fs.ErrExist; fs.ErrNotExist for a missing parent; ErrUncertain together with the
// cause if no answer came.
func (c *Client) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	return c.c.Mkdir(ctx, name, perm)
}

// SyncDir returns when the names in a directory are on stable storage: files that were created, removed and renamed
// before. The content of the files is not; File.Sync does that.
//
// Errors: fs.ErrNotExist, syscall.ENOTDIR.
func (c *Client) SyncDir(ctx context.Context, name string) error { return c.c.SyncDir(ctx, name) }

// Remove removes a file or an empty directory. A file that is read-only is removed too, as POSIX has it.
//
// Errors: fs.ErrNotExist, syscall.ENOTEMPTY; ErrUncertain together with the cause if no answer
// came.
func (c *Client) Remove(ctx context.Context, name string) error { return c.c.Remove(ctx, name) }

// Rename moves a file or directory within the share. It replaces an existing file of the new
// name, unless that file is open.
//
// Errors: fs.ErrNotExist; fs.ErrPermission, also if the target is open or a directory;
// ErrUncertain together with the cause if no answer came.
func (c *Client) Rename(ctx context.Context, from, to string) error {
	return c.c.Rename(ctx, from, to)
}
