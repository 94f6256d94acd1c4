package smbserver

import (
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"time"

	"lwio/internal/evict"
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbwire"
	"lwio/internal/statefile"
	"lwio/vfs"
)

// Defaults and bounds of Config.
const (
	DefaultMaxConnections  = 1024
	DefaultMaxSessions     = 64
	DefaultMaxTrees        = 256
	DefaultMaxOpens        = 16384
	DefaultMaxWorkers      = 32
	DefaultMaxWaits        = 256
	DefaultMaxCredits      = 8192
	DefaultMaxTransferSize = 1 << 20
	DefaultMemory          = 256 << 20
	DefaultAuthTimeout     = 10 * time.Second
	DefaultStallTimeout    = 30 * time.Second
	DefaultKeepAlive       = 10 * time.Second
	DefaultFailureDelay    = 200 * time.Millisecond
	DefaultAuthFailures    = 10
	DefaultRenewalTime     = time.Minute
	DefaultDurableTimeout  = 5 * time.Minute
	DefaultMaxOrphans      = 16384

	// MinMemory is the least Config.Memory, in bytes, with the default MaxTransferSize.
	MinMemory = minMessages * (DefaultMaxTransferSize + transferSlack)

	// minMessages is the number of messages of the largest size that fit into the least
	// memory.
	minMessages     = 4
	minTransferSize = 64 << 10
	maxTransferSize = 8 << 20
	minCredits      = maxTransferSize / smbwire.CreditUnit
	maxCredits      = 8192
)

// PipeHandler serves a named pipe.
type PipeHandler interface {
	// Transact takes one message and returns its result. maxOutput is the number of bytes
	// that the client takes at once; the client reads the rest from the pipe. s is the
	// session that owns the pipe; ctx ends when the client cancels, closes the pipe or
	// disconnects. request is the server's memory and must not be kept; the result belongs
	// to the server. An error closes the pipe, and its NTSTATUS, if it wraps one, goes to
	// the client.
	//
	// Transact must be safe for concurrent use.
	Transact(ctx context.Context, s *Session, request []byte, maxOutput int) ([]byte, error)
}

// Kerberos checks the tickets of clients.
type Kerberos = smbauth.KerberosServer

// Config configures a server. FS is compulsory; nil and zero mean the default everywhere
// else.
type Config struct {
	// FS holds the shares. The caller owns it, and closes it after the server.
	FS *vfs.FS
	// ServerName is the name of the server in NTLM. Default: "LWIO".
	ServerName string
	// GUID identifies the server. It is the same after a restart that loses no written data, and another one otherwise: a
	// client concludes from it how an open has ended that the server does not know any more. Default: random.
	GUID [16]byte
	// Lookup returns the canonical name of a user, and the NT hash of the user's password;
	// nil has no users. All spellings of a user must have the same canonical name: limits go
	// by it. Lookup must be safe for concurrent use.
	Lookup func(domain, user string) (name string, ntHash [16]byte, ok bool)
	// Kerberos checks the tickets of clients; nil does not offer Kerberos. Lookup maps the
	// principals to users: their realm is the domain.
	Kerberos Kerberos
	// RequireKerberos refuses NTLM.
	RequireKerberos bool
	// Encryption says which messages are encrypted. Default: EncryptionOffered.
	Encryption Encryption
	// Leases says which leases are granted. Default: LeasesAll.
	Leases Leases
	// Pipes are the named pipes of IPC$, by name; case does not matter.
	Pipes map[string]PipeHandler
	// ResumeKeyContext returns the context of a resume key, in UTF-16LE; nil or an empty
	// result mean that LWIO is not offered. [OP-30]
	ResumeKeyContext func() []byte
	// Known holds the hosts from which users have logged on; the server enters its sessions.
	// Default: one of its own.
	Known *evict.Known
	// MaxConnections bounds the connections. A further connection evicts an unauthenticated
	// one: the oldest of the busiest host, and last those of hosts in Known. If all have
	// authenticated, the new connection is closed at once. Default 1024.
	MaxConnections int
	// MaxUserConnections bounds the connections of one user. A further logon is refused.
	// Default: MaxConnections less a sixty-fourth of it.
	MaxUserConnections int
	// MaxSessions, MaxTrees and MaxOpens bound the sessions (authenticated or not), tree
	// connects and opens of each connection. Defaults 64, 256, 16384. While no session is
	// authenticated, two may authenticate at a time.
	MaxSessions, MaxTrees, MaxOpens int
	// MaxWorkers bounds the messages of a connection that are served concurrently. Further ones are
	// queued, up to 32 MiB; an ECHO and a CANCEL wait for none of them. Default 32.
	MaxWorkers int
	// MaxWaits bounds the requests of a connection that wait for a lock, a break of a lease, or changes of a
	// directory, in addition to MaxWorkers. Default 256.
	MaxWaits int
	// MaxCredits bounds the credits of a connection. Default 8192, clamped to
	// 128..8192.
	MaxCredits int
	// MaxTransferSize bounds the payload of a read, write or transaction, in
	// bytes. Default 1 MiB, clamped to 64 KiB..8 MiB.
	MaxTransferSize int
	// Memory bounds the memory of messages, in and out, and of sessions, of all connections
	// together, in bytes; requests wait for memory. A response counts until its last byte is
	// written. One user has at most three quarters of it. Requests that wait for locks or for
	// changes, and changes that wait for a request, have at most a quarter. Each connection has an allowance of
	// 48 KiB beside it. Default 256 MiB, at least four messages of the largest size.
	Memory int64
	// AuthTimeout bounds the time of a connection without an authenticated session. Default
	// 10 s.
	AuthTimeout time.Duration
	// FailureDelay delays the response to a failed authentication, and everything else on
	// its connection. Default 200 ms.
	FailureDelay time.Duration
	// AuthFailures bounds the wrong passwords per minute for one user from one address, on
	// all connections; all users from an address, and a user from all addresses, have four
	// times this bound. An attempt above the bound is refused before its password is
	// compared. A user that has logged on from an address before is not limited there by
	// failures elsewhere or with other names. Default 10; negative for no limit.
	AuthFailures int
	// Rates bound the traffic of each user. Default: no bounds.
	Rates Rates
	// RenewalTime is the time that a client has to authenticate again after the end of its ticket.
	// Without that the session ends. Default 1 min.
	RenewalTime time.Duration
	// Durable configures the durable opens.
	Durable DurableConfig
	// KeepAlive is the time after which TCP ends the connection of a client that does not respond: to
	// probes of an idle connection, or to data. A client that takes no data for that time counts too.
	// Default 10 s, at least 1 s; negative for no check.
	KeepAlive time.Duration
	// StallTimeout bounds the time from the first byte of a message to its last, and the
	// time in which the client takes a response, for each MiB begun. Default 30 s.
	StallTimeout time.Duration
	// Logger receives logons, failures and broken connections; nil is silent.
	Logger *slog.Logger
}

// Rates bound the traffic of a user, on all connections and of all protocols that share
// Session.Limiter. Requests above a rate wait. 0 is no bound.
type Rates struct {
	// Requests is in requests per second.
	Requests int
	// Bytes is in bytes per second that are read and written. Burst bytes pass without a wait.
	// Default of Burst: the bytes of a tenth of a second.
	Bytes, Burst int64
}

// DurableConfig configures the durable opens: those that the server keeps for clients that have lost
// their connection.
type DurableConfig struct {
	// Timeout bounds the time for which an open is kept. The client asks for a time, or gets 60 s if
	// it does not. Default 5 min; negative for no durable opens.
	Timeout time.Duration
	// MaxOrphans bounds the orphans: the durable opens whose clients have lost their connection. One
	// user has at most three quarters of them. Above a bound the oldest opens of a lost connection
	// are closed with it. Default 16384.
	MaxOrphans int
	// State keeps the opens, so that the next process gives them back to their clients. It belongs to
	// the caller, which closes it after the server. Nil: they end with the process.
	State *statefile.Log
}

// withDefaults returns a copy with all defaults filled in.
func (c DurableConfig) withDefaults() DurableConfig {
	setDefault(&c.MaxOrphans, DefaultMaxOrphans)
	if c.Timeout == 0 {
		c.Timeout = DefaultDurableTimeout
	}
	return c
}

// setDefault sets a field that is not positive.
func setDefault[T int | int64 | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// withDefaults returns a copy with all defaults filled in.
func (c Config) withDefaults() Config {
	c.limitDefaults()
	c.timeDefaults()
	c.Durable = c.Durable.withDefaults()
	named := make(map[string]PipeHandler, len(c.Pipes))
	for name, h := range c.Pipes {
		named[strings.ToLower(name)] = h
	}
	c.Pipes = named
	if c.Known == nil {
		c.Known = evict.NewKnown()
	}
	if c.ServerName == "" {
		c.ServerName = "LWIO"
	}
	if c.GUID == [16]byte{} {
		rand.Read(c.GUID[:])
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// limitDefaults fills in the numbers and sizes, and clamps them.
func (c *Config) limitDefaults() {
	setDefault(&c.MaxConnections, DefaultMaxConnections)
	setDefault(&c.MaxUserConnections, c.MaxConnections-c.MaxConnections/64)
	setDefault(&c.MaxSessions, DefaultMaxSessions)
	setDefault(&c.MaxTrees, DefaultMaxTrees)
	setDefault(&c.MaxOpens, DefaultMaxOpens)
	setDefault(&c.MaxWorkers, DefaultMaxWorkers)
	c.MaxWorkers = max(c.MaxWorkers, 2)
	setDefault(&c.MaxWaits, DefaultMaxWaits)
	setDefault(&c.MaxCredits, DefaultMaxCredits)
	c.MaxCredits = min(max(c.MaxCredits, minCredits), maxCredits)
	setDefault(&c.MaxTransferSize, DefaultMaxTransferSize)
	c.MaxTransferSize = min(max(c.MaxTransferSize, minTransferSize), maxTransferSize)
	setDefault(&c.Memory, DefaultMemory)
	c.Memory = max(c.Memory, minMessages*int64(c.MaxTransferSize+transferSlack))
	if c.AuthFailures == 0 {
		c.AuthFailures = DefaultAuthFailures
	}
}

// timeDefaults fills in the times.
func (c *Config) timeDefaults() {
	setDefault(&c.AuthTimeout, DefaultAuthTimeout)
	setDefault(&c.RenewalTime, DefaultRenewalTime)
	setDefault(&c.StallTimeout, DefaultStallTimeout)
	setDefault(&c.FailureDelay, DefaultFailureDelay)
	if c.KeepAlive == 0 {
		c.KeepAlive = DefaultKeepAlive
	}
}

// acceptor returns the configuration of the authentication of a session.
func (c *Config) acceptor(s *Session) smbauth.AcceptorConfig {
	return smbauth.AcceptorConfig{
		ServerName: c.ServerName, Lookup: s.lookup,
		Kerberos: c.Kerberos, LookupPrincipal: s.lookupPrincipal, RequireKerberos: c.RequireKerberos,
	}
}

// unauthenticatedLimit bounds a message before authentication, in bytes: a session set-up
// with a long token.
func (c *Config) unauthenticatedLimit() int {
	if c.Kerberos != nil {
		return kerberosLimit
	}
	return unauthenticatedLimit
}
