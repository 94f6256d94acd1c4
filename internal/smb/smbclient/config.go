package smbclient

import (
	"log/slog"
	"slices"
	"time"

	"lwio/internal/smb/smbwire"
)

// Defaults and bounds of Config.
const (
	DefaultTimeout = 30 * time.Second
	DefaultCredits = 512

	minCredits = 16
	maxCredits = 8192
)

// Config says who logs on, and how.
type Config struct {
	User     string
	Password string
	// NTHash is used instead of Password if it is not nil.
	NTHash *[16]byte
	// Domain is empty for an account of the server itself.
	Domain string
	// Workstation is the name of this machine for the server's logs; it may be
	// empty.
	Workstation string
	// Dialects are offered, from 2.1 to 3.1.1. Default: 3.0, 3.0.2 and 3.1.1.
	// Others are left out.
	Dialects []uint16
	// AllowUnsigned leaves it to the server whether messages are signed. Default:
	// they must be.
	AllowUnsigned bool
	// Timeout is how long a request may be without progress. Default 30 s.
	Timeout time.Duration
	// Credits is how many credits the session tries to have, each for 64 KiB in
	// flight. Default 512, clamped to 16..8192.
	Credits int
	// Logger hears of negotiation and lost connections; nil is silent.
	Logger *slog.Logger
}

// withDefaults returns a copy with every default filled in.
func (c Config) withDefaults() Config {
	known := []uint16{smbwire.Dialect210, smbwire.Dialect300, smbwire.Dialect302, smbwire.Dialect311}
	if len(c.Dialects) == 0 {
		c.Dialects = known[1:]
	} else {
		c.Dialects = slices.DeleteFunc(known, func(d uint16) bool { return !slices.Contains(c.Dialects, d) })
	}
	if c.NTHash != nil {
		h := *c.NTHash
		c.NTHash = &h
	}
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Credits <= 0 {
		c.Credits = DefaultCredits
	}
	c.Credits = min(max(c.Credits, minCredits), maxCredits)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
