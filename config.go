package lwio

import (
	"context"
	"log/slog"
	"net"
	"time"

	"lwio/internal/client/base"
	"lwio/rdma"
)

// Config configures Dial. Nil and the zero value work. Dial copies it. Values outside the
// stated bounds are clamped.
type Config struct {
	// User, Password and Domain authenticate the client to SMB. User and password of the
	// URL, if present, replace them.
	User, Password, Domain string
	// Kerberos authenticates the client in place of NTLM, if it is not nil; a *kerberos.Client of
	// package lwio/kerberos. There is no fallback to NTLM. Domain is the realm. Without Password it
	// uses its credential cache, and without User the principal of the cache. The host of the URL is
	// the host in the name of the service, cifs/HOST.
	Kerberos KerberosClient
	// Providers are the RDMA providers that the client may use. It tries them in the order of
	// the server. nil means DefaultProviders(). The caller owns them.
	Providers []rdma.Provider
	// RequireRDMA makes Dial, and later each read and write, fail if there is no RDMA
	// connection.
	RequireRDMA bool
	// SMBOnly makes the client use SMB alone.
	SMBOnly bool
	// AllowMD5 accepts a server whose AUTH carries only the unkeyed MD5 of the protocol text, or a
	// server that does not bind AUTH to the connection. Such a server has proved nothing to a
	// client on an untrusted network. [OP-46b] [OP-46c]
	AllowMD5 bool
	// RequireEncryption encrypts all SMB messages after the logon, and refuses a server that
	// cannot. It also seals each RDMA connection over a provider that is not confidential: no other
	// peer can read its messages and data, and a change is noticed. Without RequireEncryption the
	// server and the share decide. A Buffer saves no registration on a sealed connection. The URL
	// can set it, and cannot clear it. [OP-114] [OP-114b]
	RequireEncryption bool
	// Credits is the number of messages in flight that the client asks for on each
	// connection, 1 to 4096. 0 means 128. The server grants this number or fewer, and may
	// grant more up to this number later.
	Credits int
	// Connections is the number of RDMA connections, 1 to 8. 0 means 1. Requests are
	// distributed over all of them, and large reads and writes use all. Each has credits of
	// its own. The connections use the addresses that the server lists for the best provider,
	// in turn. The value of the URL, if present, replaces this one.
	Connections int
	// AllProviders distributes the connections over all common providers, in turn, instead of
	// the best one alone.
	AllProviders bool
	// MaxReadSize bounds one read request in bytes, 4 KiB to 64 MiB. 0 means 1 MiB. The
	// window of the server bounds it too. [OP-60]
	MaxReadSize int
	// MaxRDMAWindowSize bounds one RDMA write of the server in bytes, 512 bytes to 64 MiB. 0
	// means 1 MiB. A longer read takes several RDMA writes. [OP-60]
	MaxRDMAWindowSize int
	// Completion is the completion mode. The zero value is Adaptive. The value of the URL, if
	// present, replaces this one.
	Completion CompletionMode
	// CopyThreshold is the largest read, in bytes, that goes through a bounce buffer instead
	// of a registration, 1 byte to 64 KiB. 0 means 1023 bytes. Over a sealed connection it is
	// at least 8 KiB. [OP-91]
	CopyThreshold int
	// MaxListing bounds the memory of one listing of a directory, in bytes; a longer listing
	// fails with the entries up to the bound. 0 and below mean 128 MiB, for about 450,000
	// entries.
	MaxListing int64
	// Timeout bounds each call whose context has no deadline, Dial included. 0 and below mean
	// 30 s.
	Timeout time.Duration
	// ReconnectTimeout bounds how long calls wait for a lost connection, RDMA or SMB, to be
	// replaced. 0 means 5 s. The deadline of a call holds meanwhile. After it unacknowledged writes
	// fail with ErrUncertain; other reads and writes use SMB or, with RequireRDMA, fail; calls that
	// need SMB fail with net.ErrClosed. The client continues to reconnect. It also retries RDMA
	// connections that Dial could not make, and no call waits for those. Below 0 the client makes no
	// second attempt for any connection.
	//
	// A lost SMB session is replaced if the server keeps opens without a connection (persistent
	// handles), which servers of this package do for 60 s, or if ReconnectTimeout is above 30 s for
	// twice as long. The loss of another session is final: all calls fail with net.ErrClosed. [OP-112]
	// So is a refusal of the user that all attempts bring for ReconnectTimeout. One alone can be that of an
	// attacker, because the server cannot sign it.
	ReconnectTimeout time.Duration
	// KeepAlive bounds the time until the client notices that the server, or the network, gives no
	// sign of life on the SMB connection, 1 s or more. 0 means 10 s; below 0 the client does not
	// check. A server that is stopped counts as lost.
	KeepAlive time.Duration
	// AppInstance names the running program among those of its user. The server keeps the files of a
	// program that was killed open, with their locks, for a time; they are in the way when the program
	// starts anew. A call that opens, describes, renames or removes a file first closes the opens of
	// that file which an earlier Client of the same user has made under the same name. Two Clients that
	// are in use at a time must not have the same name: each would close files of the other. "" closes
	// nothing. The value of the URL, if present, replaces this one.
	AppInstance string
	// DialContext opens TCP connections for SMB; nil means that of a zero net.Dialer.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
	// Logger receives the events of connections; nil discards them.
	Logger *slog.Logger
}

// KerberosClient gets tickets for a client. Type Client of package lwio/kerberos is one.
type KerberosClient = base.KerberosClient
