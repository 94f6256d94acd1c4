package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"time"

	"lwio/internal/host"
	"lwio/internal/smb/smbserver"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/vfs"
)

// Config configures a Server. FS is required; for every other field nil and zero mean the
// default. New copies it.
type Config struct {
	// FS is the file system to serve. It belongs to the caller, which closes it after the
	// server.
	FS *vfs.FS
	// ServerName is the name of the server in SMB and LWIO: text of up to 256 UTF-16 units,
	// without NUL. Default: the host name.
	ServerName string
	// Lookup returns the canonical name of a user, and the NT hash of the user's password, see
	// NTHash. ok is false for an unknown user. All spellings of a user must have the same
	// canonical name: limits and statistics go by it. Users.Lookup is one for a fixed set of
	// users; with nil no user is known. It must be safe for concurrent use. When its results have
	// changed, call Server.Reauthorize.
	Lookup func(domain, user string) (name string, ntHash [16]byte, ok bool)
	// Kerberos checks the tickets of clients; a *kerberos.Server of package lwio/kerberos. Nil does
	// not offer Kerberos. Lookup maps a principal to a user: its realm is the domain, its name the
	// user. A user that is in Lookup with the hash of the empty password can use Kerberos only.
	Kerberos Kerberos
	// RequireKerberos refuses NTLM.
	RequireKerberos bool
	// Providers are the providers that LWIO is offered on, in order of preference; with none the
	// server serves SMB alone. A provider without a device on this machine is left out with a
	// warning, unless it is the only one. shm.Config.AllowUID of the provider decides which
	// users may connect by shared memory: by default the user of this process, and root.
	Providers []rdma.Provider
	// RDMAListen are the addresses that each provider with IP addresses listens at, with an
	// adapter and a buffer pool for each; NEGOTIATE names all of them. An address that is
	// unspecified, such as [::]:5445, stands for the address at which the client reaches SMB,
	// and port 0 for a free port. With none a provider listens on the address of SMB, at a free
	// port.
	RDMAListen []netip.AddrPort
	// AllowMD5 accepts clients whose AUTH carries only the unkeyed MD5 of the protocol text, or a
	// keyed signature that is not bound to the connection. An attacker that sees the connection
	// can forge the first, and copy the second. [OP-46b] [OP-46c]
	AllowMD5 bool
	// Encryption says which SMB messages are encrypted and which RDMA connections are sealed.
	// Default: EncryptionOffered. A share with vfs.Share.RequireEncryption requires it with
	// EncryptionOffered too. [OP-114] [OP-114b]
	Encryption Encryption
	// Leases says which leases and oplocks clients of SMB get, under which they cache data and listings. Changes by
	// clients break them, over SMB and over RDMA; changes by programs on the server's host do not. Default:
	// LeasesAll.
	Leases Leases
	// ImmediateData completes a read that succeeded in full by immediate data of its last RDMA
	// write, instead of a message, where the provider supports that and the client waits for a
	// message. Reads whose data goes from the page cache straight into the client's memory are
	// always completed by a message. [OP-85]
	ImmediateData bool
	// DurableTimeout bounds the time for which the server keeps the opens, with their locks, the keys
	// and the RDMA connections of a client that has lost its SMB connection. The client asks for a time
	// for each open; without one it gets 60 s. Default 5 min; negative for no such opens: then all of
	// that ends with the SMB connection. [OP-42] [OP-56]
	DurableTimeout time.Duration
	// KeepAlive is the time after which TCP ends the SMB connection of a client that does not respond:
	// to probes of an idle connection, or to data. A client that takes no data for that time counts too.
	// Default 10 s, at least 1 s; negative for no check. RDMA connections have a check of their provider.
	KeepAlive time.Duration
	// StateDir is a directory in which the server keeps the durable opens of its clients, with their
	// locks, and their writes over RDMA: after the death of the process, or after Close, the next server with the same directory and
	// the same shares gives them back, for the time of DurableTimeout, and has each write done once. New makes the directory, with mode
	// 0700. One server at a time uses it. An open whose file was replaced or removed meanwhile is refused to
	// its client; so is one with a lock, or a share mode that denies writing, whose file another program has changed, and every open after a restart of the host. Empty: opens end with the server.
	// Linux only. [OP-56]
	StateDir string
	// RequireState makes New fail if the state is broken, in place of a server without durable opens: another
	// server, which can use it, may go on.
	RequireState bool
	// Limits bound the resources that clients take.
	Limits Limits
	// Logger receives connections, refusals and failures; nil discards them.
	Logger *slog.Logger
}

// LevelAudit is the level of the audit log, which goes to Config.Logger: logons and their ends, tree
// connects, opens, descriptions by name, renames, deletes and other changes of files, RDMA connections, and the
// refusals of all of these. The message of a line is the event. The level is below slog.LevelInfo, because a
// program that works with many small files causes many lines.
const LevelAudit = smbserver.AuditLevel

// Kerberos checks the tickets of clients. Type Server of package lwio/kerberos is one.
type Kerberos = smbserver.Kerberos

// Encryption says which SMB messages are encrypted and which RDMA connections are sealed, see
// Config.Encryption. Its String method returns off, offered or required.
type Encryption = smbserver.Encryption

// The choices of Encryption. A client that encrypts is served with all of them but
// EncryptionOff.
const (
	// EncryptionOffered leaves the choice to each client.
	EncryptionOffered = smbserver.EncryptionOffered
	// EncryptionOff offers no encryption. No client can use a share that requires it.
	EncryptionOff = smbserver.EncryptionOff
	// EncryptionRequired refuses each client that does not encrypt.
	EncryptionRequired = smbserver.EncryptionRequired
)

// Leases says which leases and oplocks a server grants. Its String method returns all, files or off.
type Leases = smbserver.Leases

// The choices of Leases.
const (
	// LeasesAll grants leases of files and of directories, and oplocks.
	LeasesAll = smbserver.LeasesAll
	// LeasesOfFiles grants no lease of a directory: clients do not cache listings.
	LeasesOfFiles = smbserver.LeasesOfFiles
	// LeasesOff grants neither leases nor oplocks: clients cache nothing. A durable handle of a client that does not ask
	// for a persistent one needs a lease, so there are none of these.
	LeasesOff = smbserver.LeasesOff
)

// Limits bound the resources of a server. Zero means the default.
type Limits struct {
	// SMBConnections bounds the SMB connections. A further connection evicts the oldest
	// unauthenticated one of the busiest host; without one, it is closed at once. The busiest host has
	// the largest product of the number of its connections and the age of the oldest. A host from which
	// a user has logged on within ten minutes, or has a session, comes last. Default 1024, or a quarter
	// of the descriptors that the process may have if that is less.
	SMBConnections int
	// SMBMemory bounds the memory of SMB messages and sessions, of all connections together, in
	// bytes. Requests wait for memory. A response counts until its last byte is written. One user
	// gets three quarters at most. Each connection has an allowance of 64 KiB beside it. Default
	// 256 MiB, at least MinSMBMemory.
	SMBMemory int64
	// Connections bounds the RDMA connections; a further one is rejected. Default 1024, or a
	// sixteenth of the descriptors if that is less. Unauthenticated bounds the RDMA connections
	// that have not passed AUTH; a further one evicts the oldest of the busiest host, as with
	// SMBConnections. Default 64.
	Connections, Unauthenticated int
	// ConnectionsPerKey bounds the connections that use one pair of negotiated keys at a
	// time. Default 16. [OP-42b]
	ConnectionsPerKey int
	// FilesPerConnection bounds the file ids of a connection. Default 4096, at most 65535.
	// [OP-54]
	FilesPerConnection int
	// Orphans bounds the opens whose clients have lost their SMB connection. One user has at most three
	// quarters of them. Above a bound the oldest opens of a connection are closed with it. Default
	// 16384.
	Orphans int
	// Registrations bounds the registered files of all connections together. One user has at most
	// three quarters of them. A further REGISTER is refused. Default 65536.
	Registrations int
	// AuthTimeout bounds the time from accepting a connection to AUTH. Default 5 s. [OP-44]
	AuthTimeout time.Duration
	// AuthFailures bounds the wrong passwords a minute for one user from one address. Four times
	// as many are allowed for all users from one address, and for one user from all addresses.
	// Further attempts are refused without a comparison. A user that has logged on from an
	// address before is not refused there because of attempts from other addresses or with
	// other names. Default 10; negative for no bound.
	AuthFailures int
	// RequestRate bounds the requests a second of each user, over SMB and LWIO together, on
	// all connections; further requests wait. Default: no bound; at least MinRequestRate.
	RequestRate int
	// ByteRate bounds the bytes a second that each user reads and writes, over SMB and LWIO
	// together, on all connections; further requests wait. Default: no bound; at least
	// MinByteRate. ByteBurst is the number of bytes that may be moved at once. Default: the
	// bytes of a tenth of a second.
	ByteRate, ByteBurst int64
	// ConnectionsPerUser bounds the RDMA connections of one user that have passed AUTH, and,
	// separately, the SMB connections on which the user has logged on; a further one is refused.
	// Default: Connections, and SMBConnections, less a sixty-fourth of it.
	ConnectionsPerUser int
	// StallTimeout bounds the time for which a client may leave its answers unreceived; then
	// its connection is cut. Default 30 s.
	StallTimeout time.Duration
	// Credits bounds the outstanding requests of a new connection, default 32. MaxCredits bounds
	// those of a connection that asks for more, default 128, at least Credits. Both are at most
	// 1024. [OP-74c]
	Credits, MaxCredits int
	// CreditBudget bounds the memory of the receives of all connections together, in units of
	// MaxRecvBufferSize. A credit takes one unit; over a provider with rdma.CapByReference it
	// takes as many as MaxByReferenceSize has, by default 16. While credits are short, each
	// connection has a share in proportion to its requests, at least one credit. The connections of
	// one user get at most three quarters. Default 8192.
	CreditBudget int
	// MaxRecvBufferSize bounds the data of one write, in bytes. Default 64 KiB, clamped to
	// 4 KiB..1 MiB and rounded up to whole pages. [OP-61c]
	MaxRecvBufferSize int
	// MaxByReferenceSize replaces MaxRecvBufferSize for providers with rdma.CapByReference, over
	// which the data of a write can stay in the client's memory. A write whose data does not stay
	// there can take this much memory of the server. Default MaxRecvBufferSize if that is set,
	// else 1 MiB; clamped to MaxRecvBufferSize..1 MiB.
	MaxByReferenceSize int
	// MaxRDMAWindowSize bounds the data of one read, in bytes. Default 512 KiB, clamped to
	// 64 KiB..8 MiB. [OP-60]
	MaxRDMAWindowSize int
	// ReadBufferBytes is the size of the buffer pools for reads of each provider, in bytes. The
	// addresses of a provider share it equally, and each has at least four reads of the
	// largest size. The connections of one user get at most three quarters of a pool. Default
	// 64 MiB.
	ReadBufferBytes int
	// BusyPoll bounds the time for which a connection busy-polls for requests before it
	// sleeps. At most half of the processors busy-poll at a time. Default 50 µs; negative for
	// no busy-polling.
	BusyPoll time.Duration
	// Workers bounds the goroutines for the reads of one file that wait for a disk, and equally
	// those for its writes. For all files together the bound is 32 times as high. Default four
	// for each processor, at least 8.
	Workers int
}

// Defaults of fields of Config, for programs with flags for them.
const (
	DefaultDurableTimeout = smbserver.DefaultDurableTimeout
	DefaultKeepAlive      = smbserver.DefaultKeepAlive
)

// Defaults of fields of Limits, for programs with flags for them. SMBMemory, ReadBufferBytes and the sizes are
// in bytes.
const (
	DefaultSMBConnections     = 1024
	DefaultSMBMemory          = 256 << 20
	DefaultConnections        = 1024
	DefaultUnauthenticated    = 64
	DefaultConnectionsPerKey  = 16
	DefaultFilesPerConnection = 4096
	DefaultRegistrations      = 64 << 10
	DefaultOrphans            = smbserver.DefaultMaxOrphans
	DefaultAuthFailures       = 10
	DefaultAuthTimeout        = 5 * time.Second
	DefaultStallTimeout       = 30 * time.Second
	DefaultCredits            = 32
	DefaultMaxCredits         = 128
	DefaultCreditBudget       = 8192
	DefaultMaxRecvBufferSize  = 64 << 10
	DefaultMaxByReferenceSize = 1 << 20
	DefaultMaxRDMAWindowSize  = 512 << 10
	DefaultReadBufferBytes    = 64 << 20
	DefaultBusyPoll           = 50 * time.Microsecond
)

// Bounds of fields of Limits: values beyond them are clamped. The sizes are in bytes.
const (
	MaxCredits            = 1024
	MaxFilesPerConnection = 1<<16 - 1
	MinRecvBufferSize     = 4 << 10
	MaxRecvBufferSize     = 1 << 20
	MinRDMAWindowSize     = 64 << 10
	MaxRDMAWindowSize     = 8 << 20
)

// Lower bounds of Limits: lower values are raised to them.
const (
	// MinRequestRate is in requests a second. With it DefaultConnections connections of a user
	// each get a turn within StallTimeout.
	MinRequestRate = 100
	// MinByteRate is in bytes a second.
	MinByteRate = 1 << 20
	// MinSMBMemory is the memory of four messages of the largest size, and MinReadBufferBytes
	// of four reads of the default MaxRDMAWindowSize; in bytes.
	MinSMBMemory       = smbserver.MinMemory
	MinReadBufferBytes = 4 * DefaultMaxRDMAWindowSize
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
	if _, err := (&wire.NegotiateResponse{ServerName: c.ServerName}).AppendTo(nil); err != nil {
		return c, fmt.Errorf("server: new: %w", err)
	}
	c.Providers = slices.Clone(c.Providers)
	c.RDMAListen = slices.Clone(c.RDMAListen)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Limits = c.Limits.withDefaults()
	return c, nil
}

// withDefaults returns a copy with every default filled in.
func (l Limits) withDefaults() Limits {
	if l.MaxByReferenceSize <= 0 && l.MaxRecvBufferSize <= 0 {
		l.MaxByReferenceSize = DefaultMaxByReferenceSize
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
		{&l.FilesPerConnection, DefaultFilesPerConnection, 1, MaxFilesPerConnection},
		{&l.Registrations, DefaultRegistrations, 1, 1 << 30},
		{&l.Credits, DefaultCredits, 1, MaxCredits},
		{&l.MaxCredits, DefaultMaxCredits, 1, MaxCredits},
		{&l.CreditBudget, DefaultCreditBudget, 1, 1 << 30},
		{&l.MaxRecvBufferSize, DefaultMaxRecvBufferSize, MinRecvBufferSize, MaxRecvBufferSize},
		{&l.MaxRDMAWindowSize, DefaultMaxRDMAWindowSize, MinRDMAWindowSize, MaxRDMAWindowSize},
		{&l.ReadBufferBytes, DefaultReadBufferBytes, 4 * MinRDMAWindowSize, 1 << 40},
		{&l.Workers, max(8, 4*runtime.GOMAXPROCS(0)), 1, 1 << 16},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
		*d.field = min(max(*d.field, d.min), d.max)
	}
	l.MaxCredits = max(l.MaxCredits, l.Credits)
	l.MaxRecvBufferSize = wholePages(l.MaxRecvBufferSize)
	l.MaxByReferenceSize = wholePages(min(max(l.MaxByReferenceSize, l.MaxRecvBufferSize), MaxRecvBufferSize))
	l.ReadBufferBytes = max(l.ReadBufferBytes, 4*l.MaxRDMAWindowSize)
	if l.RequestRate > 0 {
		l.RequestRate = max(l.RequestRate, MinRequestRate)
	}
	if l.ByteRate > 0 {
		l.ByteRate = max(l.ByteRate, MinByteRate)
	}
	if l.ConnectionsPerUser <= 0 {
		l.ConnectionsPerUser = l.Connections - l.Connections/64
	}
	if l.BusyPoll == 0 {
		l.BusyPoll = DefaultBusyPoll
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

// pageSize is the size of a page in the protocol, in bytes. The page size of the hardware
// may differ.
//
// Source: [OP-28]
const pageSize = 4096

// wholePages rounds n up to a multiple of a page.
func wholePages(n int) int { return (n + pageSize - 1) / pageSize * pageSize }
