package base

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net"
	"slices"
	"time"

	"lwio/internal/smb/smbauth"
	"lwio/rdma"
)

// The defaults and bounds of Config.
const (
	defaultCredits = 128
	// defaultCopyThreshold is in bytes. [LWIO §Read]
	defaultCopyThreshold     = 1<<10 - 1
	defaultMaxReadSize       = 1 << 20   // bytes
	defaultMaxRDMAWindowSize = 1 << 20   // bytes
	defaultMaxListing        = 128 << 20 // bytes
	defaultTimeout           = 30 * time.Second
	// DefaultReconnectTimeout is the default of Config.ReconnectTimeout.
	DefaultReconnectTimeout = 5 * time.Second
	defaultKeepAlive        = 10 * time.Second
	minKeepAlive            = time.Second

	// MaxCredits bounds Config.Credits.
	MaxCredits       = 4096
	maxCopyThreshold = 64 << 10
	minReadSize      = 4 << 10
	maxReadSize      = 64 << 20
	// maxConnections bounds Config.Connections: the server keeps twice as many key pairs
	// of a session.
	maxConnections = 8
	minWindow      = 512
	maxWindow      = 64 << 20
)

// KerberosClient gets tickets for a client.
type KerberosClient = smbauth.KerberosClient

// Config has the fields of lwio.Config.
type Config struct {
	User, Password, Domain string
	Kerberos               KerberosClient
	Providers              []rdma.Provider
	RequireRDMA            bool
	SMBOnly                bool
	AllowMD5               bool
	RequireEncryption      bool
	Credits                int
	Connections            int
	AllProviders           bool
	MaxReadSize            int
	MaxRDMAWindowSize      int
	Completion             CompletionMode
	CopyThreshold          int
	MaxListing             int64
	Timeout                time.Duration
	ReconnectTimeout       time.Duration
	KeepAlive              time.Duration
	AppInstance            string
	DialContext            func(ctx context.Context, network, addr string) (net.Conn, error)
	Logger                 *slog.Logger
}

// WithDefaults returns a copy with all fields set and clamped.
func (c *Config) WithDefaults() Config {
	var cfg Config
	if c != nil {
		cfg = *c
	}
	cfg.Credits = clamp(cfg.Credits, defaultCredits, 1, MaxCredits)
	cfg.Connections = clamp(cfg.Connections, 1, 1, maxConnections)
	cfg.MaxReadSize = clamp(cfg.MaxReadSize, defaultMaxReadSize, minReadSize, maxReadSize)
	cfg.MaxRDMAWindowSize = clamp(cfg.MaxRDMAWindowSize, defaultMaxRDMAWindowSize, minWindow, maxWindow)
	cfg.CopyThreshold = clamp(cfg.CopyThreshold, defaultCopyThreshold, 1, maxCopyThreshold)
	if cfg.MaxListing <= 0 {
		cfg.MaxListing = defaultMaxListing
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.ReconnectTimeout == 0 {
		cfg.ReconnectTimeout = DefaultReconnectTimeout
	}
	if cfg.KeepAlive == 0 {
		cfg.KeepAlive = defaultKeepAlive
	}
	if cfg.KeepAlive > 0 {
		cfg.KeepAlive = max(cfg.KeepAlive, minKeepAlive)
	}
	if cfg.DialContext == nil {
		cfg.DialContext = new(net.Dialer).DialContext
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return cfg
}

func clamp(v, zero, low, high int) int {
	if v == 0 {
		v = zero
	}
	return min(max(v, low), high)
}

// Bounded returns ctx with a deadline after Timeout, unless ctx has one.
func (c *Config) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.Timeout)
}

// ErrRange is the error of an offset or a size that no file can have.
var ErrRange = fmt.Errorf("%w: no file has such a range", fs.ErrInvalid)

// CheckRange returns ErrRange for a range that no file can have. [OP-92c]
func CheckRange(off int64, n int) error {
	if off < 0 || off > math.MaxInt64-int64(n) {
		return ErrRange
	}
	return nil
}

// Apply sets the fields that the URL has.
func (c *Config) Apply(t *Target) error {
	if t.User != "" || t.HasPassword {
		c.User = t.User
	}
	if t.HasPassword || t.Password != "" {
		c.Password = t.Password
	}
	if m, ok := completionMode(t.Completion); ok {
		c.Completion = m
	}
	if t.Connections != 0 {
		c.Connections = clamp(t.Connections, 1, 1, maxConnections)
	}
	if t.AppInstance != "" {
		c.AppInstance = t.AppInstance
	}
	if t.Kerberos && c.Kerberos == nil {
		return fmt.Errorf("auth=kerberos: the program has no Kerberos: %w", errors.ErrUnsupported)
	}
	c.RequireEncryption = c.RequireEncryption || t.RequireEncryption
	if c.Completion > Interrupt {
		return fmt.Errorf("%v: %w", c.Completion, fs.ErrInvalid)
	}
	switch t.Provider {
	case "":
	case TransportSMB:
		c.SMBOnly = true
	default:
		c.RequireRDMA = true
		c.Providers = slices.DeleteFunc(slices.Clone(c.Providers), func(p rdma.Provider) bool { return p.Name() != t.Provider })
		if len(c.Providers) == 0 {
			return fmt.Errorf("provider=%s: there is no such provider here: %w", t.Provider, ErrNoRDMA)
		}
	}
	if c.SMBOnly && c.RequireRDMA {
		return fmt.Errorf("SMB alone and RDMA required: %w", ErrNoRDMA)
	}
	return nil
}
