package server

import (
	"errors"
	"log/slog"
	"os"
	"runtime"
	"time"

	"lwio/internal/host"
	"lwio/internal/smb/smbserver"
	"lwio/rdma"
	"lwio/vfs"
)

// Config is what New needs. FS is compulsory; nil and zero mean the default
// everywhere else. New copies it.
type Config struct {
	// FS is what is served. It stays the caller's, who closes it after the
	// server.
	FS *vfs.FS
	// ServerName is what the server calls itself. Default: the host's name.
	ServerName string
	// Lookup gives the NT hash of a user's password; nil knows nobody. It must
	// be safe for concurrent use. Users.Lookup is one.
	Lookup func(domain, user string) (ntHash [16]byte, ok bool)
	// Providers are the fabrics that LWIO is offered on, best first. None: SMB
	// alone. One that has no device here is left out, with a warning, unless it is
	// the only one. Who may connect by shared memory is shm.Config.AllowUID of the
	// provider: by default this process's user, and root.
	Providers []rdma.Provider
	// DisableLWIO keeps to SMB alone, whatever Providers holds.
	DisableLWIO bool
	// AllowMD5 accepts clients whose AUTH carries nothing but the unkeyed MD5 of
	// the text, which whoever sees the connection can forge. [OP-46b]
	AllowMD5 bool
	// ImmediateData completes a read that succeeded in full by immediate data of its
	// last RDMA write, instead of a message, where the provider has that and the client
	// waits for a message. What goes from the page cache straight into the client's
	// memory has a message all the same. [OP-85]
	ImmediateData bool
	// Limits bound what clients can make the server hold.
	Limits Limits
	// Logger hears of connections, refusals and failures; nil is silent.
	Logger *slog.Logger
}

// Limits bound the resources of the LWIO side. Zero means the default.
type Limits struct {
	// SMBConnections bounds the SMB connections. One more takes the place of the oldest
	// that nobody has authenticated on, and is closed at once if there is none. Default
	// 1024, or a quarter of the descriptors that the process may have.
	SMBConnections int
	// SMBMemory bounds the SMB messages of 16 KiB and more, of all connections together,
	// in bytes; requests wait for it. A user has three quarters at most. Default 256
	// MiB, at least MinSMBMemory.
	SMBMemory int64
	// Connections bounds the RDMA connections; one more is rejected. Unauthenticated
	// bounds those of them that have not passed AUTH; one more takes the place of
	// another, which is cut: the oldest of the address that has most. Defaults 1024, or
	// a sixteenth of the descriptors, and 64.
	Connections, Unauthenticated int
	// ConnectionsPerKey bounds the connections that use one pair of negotiated
	// keys at a time. Default 16. [OP-42b]
	ConnectionsPerKey int
	// FilesPerConnection bounds the file ids of a connection. Default 4096, at
	// most 65535. [OP-54]
	FilesPerConnection int
	// AuthTimeout is how long after it was accepted a connection may take to
	// pass AUTH. Default 5 s. [OP-44]
	AuthTimeout time.Duration
	// AuthFailures bounds the wrong passwords a minute for one user from one address;
	// all users from an address, and a user from all addresses, have four times as
	// many. What is above it is refused unseen, but a user who has logged on from an
	// address before is not held up there by what strangers try elsewhere, or with
	// other names. Default 10; negative for no limit.
	AuthFailures int
	// RequestRate bounds the requests a second of each user, over SMB and LWIO
	// together, on all connections; those above it wait. Default: no bound; at least
	// 100.
	RequestRate int
	// ByteRate bounds the bytes a second that each user reads and writes, over SMB and
	// LWIO together, on all connections; what is above it waits. ByteBurst of them may be
	// had at once. Default: no bound, at least 1 MiB; and a tenth of a second's.
	ByteRate, ByteBurst int64
	// ConnectionsPerUser bounds the RDMA connections of one user that have passed AUTH;
	// one more is refused. Default: all but a sixty-fourth of Connections.
	ConnectionsPerUser int
	// StallTimeout is how long a client may leave what was sent to it untaken.
	// Default 30 s.
	StallTimeout time.Duration
	// Credits bounds the requests that a new connection may have outstanding;
	// MaxCredits those of one that has use for more. Defaults 32 and 128, at most
	// 1024, and MaxCredits is at least Credits. [OP-74c]
	Credits, MaxCredits int
	// CreditBudget bounds the credits of all connections together, and with them
	// the memory of receives (MaxRecvBufferSize each). While it is short each has
	// a share by what it asks for, and one at least. Default 8192.
	CreditBudget int
	// MaxRecvBufferSize is the data of one write, in bytes. Default 64 KiB,
	// clamped to 4 KiB..1 MiB and rounded up to whole pages. [OP-61c]
	MaxRecvBufferSize int
	// MaxLentBufferSize is MaxRecvBufferSize for providers whose clients can lend the
	// data of a write (rdma.CapByReference), which then stays in their memory: what they do not
	// lend takes as much of the server's. Default 1 MiB, or MaxRecvBufferSize where that
	// is set; clamped to MaxRecvBufferSize..1 MiB.
	MaxLentBufferSize int
	// MaxRdmaWindowSize is the data of one read, in bytes. Default 512 KiB,
	// clamped to 64 KiB..8 MiB. [OP-60]
	MaxRdmaWindowSize int
	// ReadBufferBytes is the memory, for each provider, that reads go through.
	// Default 64 MiB, at least four reads of the largest size.
	ReadBufferBytes int
	// SpinTime is how long a connection's loop looks for requests before it sleeps,
	// while requests come faster than that; at most half of the processors do so at a
	// time. Default 50 µs; negative for never.
	SpinTime time.Duration
	// Workers is the number of goroutines for the reads of one file that wait for a
	// disk, and that for its writes; for all files there are up to 32 times as many.
	// Default four for each CPU, at least 8.
	Workers int
}

// Defaults of Limits.
const (
	DefaultSMBConnections     = 1024
	DefaultSMBMemory          = 256 << 20
	DefaultConnections        = 1024
	DefaultUnauthenticated    = 64
	DefaultConnectionsPerKey  = 16
	DefaultFilesPerConnection = 4096
	DefaultAuthTimeout        = 5 * time.Second
	DefaultStallTimeout       = 30 * time.Second
	DefaultAuthFailures       = 10
	DefaultCredits            = 32
	DefaultMaxCredits         = 128
	DefaultCreditBudget       = 8192
	DefaultMaxRecvBufferSize  = 64 << 10
	DefaultMaxLentBufferSize  = 1 << 20
	DefaultMaxRdmaWindowSize  = 512 << 10
	DefaultReadBufferBytes    = 64 << 20
	DefaultSpinTime           = 50 * time.Microsecond
)

// Bounds that the defaults are clamped to.
const (
	maxCredits    = 1024
	minRecvBuffer = 4 << 10
	maxRecvBuffer = 1 << 20
	minWindow     = 64 << 10
	maxWindow     = 8 << 20
	maxFiles      = 1<<16 - 1
)

// What limits are raised to, if they are lower.
const (
	// MinRequestRate keeps the turns of DefaultConnections short of StallTimeout.
	MinRequestRate = 100
	MinByteRate    = 1 << 20
	// MinSMBMemory and MinReadBufferBytes are for four messages, and four reads, of the
	// largest size, with the default MaxRdmaWindowSize; both in bytes.
	MinSMBMemory       = smbserver.MinMemory
	MinReadBufferBytes = 4 * DefaultMaxRdmaWindowSize
)

// withDefaults checks c and returns a copy with every default filled in.
func (c Config) withDefaults() (Config, error) {
	if c.FS == nil {
		return c, errors.New("server: new: no file system to serve")
	}
	if c.ServerName == "" {
		c.ServerName, _ = os.Hostname()
	}
	if c.ServerName == "" {
		c.ServerName = "LWIO"
	}
	if c.DisableLWIO {
		c.Providers = nil
	}
	c.Providers = append([]rdma.Provider(nil), c.Providers...)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Limits = c.Limits.withDefaults()
	return c, nil
}

// withDefaults returns a copy with every default filled in.
func (l Limits) withDefaults() Limits {
	if l.MaxLentBufferSize <= 0 && l.MaxRecvBufferSize <= 0 {
		l.MaxLentBufferSize = DefaultMaxLentBufferSize
	}
	for _, d := range []struct {
		field    *int
		value    int
		min, max int
	}{
		{&l.SMBConnections, host.DescriptorShare(DefaultSMBConnections, 4), 1, 1 << 20},
		{&l.Connections, host.DescriptorShare(DefaultConnections, 16), 1, 1 << 20},
		{&l.Unauthenticated, DefaultUnauthenticated, 1, 1 << 20},
		{&l.ConnectionsPerKey, DefaultConnectionsPerKey, 1, 1 << 20},
		{&l.FilesPerConnection, DefaultFilesPerConnection, 1, maxFiles},
		{&l.Credits, DefaultCredits, 1, maxCredits},
		{&l.MaxCredits, DefaultMaxCredits, 1, maxCredits},
		{&l.CreditBudget, DefaultCreditBudget, 1, 1 << 30},
		{&l.MaxRecvBufferSize, DefaultMaxRecvBufferSize, minRecvBuffer, maxRecvBuffer},
		{&l.MaxRdmaWindowSize, DefaultMaxRdmaWindowSize, minWindow, maxWindow},
		{&l.ReadBufferBytes, DefaultReadBufferBytes, 4 * minWindow, 1 << 40},
		{&l.Workers, max(8, 4*runtime.GOMAXPROCS(0)), 1, 1 << 16},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
		*d.field = min(max(*d.field, d.min), d.max)
	}
	l.MaxCredits = max(l.MaxCredits, l.Credits)
	l.MaxRecvBufferSize = wholePages(l.MaxRecvBufferSize)
	l.MaxLentBufferSize = wholePages(min(max(l.MaxLentBufferSize, l.MaxRecvBufferSize), maxRecvBuffer))
	l.ReadBufferBytes = max(l.ReadBufferBytes, 4*l.MaxRdmaWindowSize)
	if l.RequestRate > 0 {
		l.RequestRate = max(l.RequestRate, MinRequestRate)
	}
	if l.ByteRate > 0 {
		l.ByteRate = max(l.ByteRate, MinByteRate)
	}
	if l.ConnectionsPerUser <= 0 {
		l.ConnectionsPerUser = l.Connections - l.Connections/64
	}
	if l.SpinTime == 0 {
		l.SpinTime = DefaultSpinTime
	}
	if l.AuthTimeout <= 0 {
		l.AuthTimeout = DefaultAuthTimeout
	}
	if l.SMBMemory <= 0 {
		l.SMBMemory = DefaultSMBMemory
	}
	if l.AuthFailures == 0 {
		l.AuthFailures = DefaultAuthFailures
	}
	if l.StallTimeout <= 0 {
		l.StallTimeout = DefaultStallTimeout
	}
	return l
}

// pageSize is what the server calls a page, in bytes, whatever the hardware's.
//
// Source: [OP-28]
const pageSize = 4096

// wholePages rounds n up to a multiple of a page.
func wholePages(n int) int { return (n + pageSize - 1) / pageSize * pageSize }
