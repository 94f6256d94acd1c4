package smbclient

import (
	"crypto/rand"
	"log/slog"
	"slices"
	"time"

	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbwire"
)

// Defaults and bounds of Config.
const (
	DefaultTimeout = 30 * time.Second
	DefaultCredits = 512

	minCredits = 16
	maxCredits = 8192
)

// Config has the credentials and limits of a session.
type Config struct {
	User     string
	Password string
	// NTHash is used in place of Password if it is not nil.
	NTHash *[16]byte
	// Domain is empty for an account of the server itself.
	Domain string
	// Kerberos is used in place of NTLM if it is not nil: with Password for a new ticket, else with
	// the credential cache. Domain is the realm.
	Kerberos smbauth.KerberosClient
	// ClientGUID names the client over all of its sessions: a session takes over the opens of a lost
	// session of the same client. Zero is a random one.
	ClientGUID [16]byte
	// AppInstance names the instance of the application: a CREATE closes the persistent opens of its
	// file that another client of the same user has made for the same instance. Zero is none.
	AppInstance [16]byte
	// PreviousSession is the id of the lost session of the same user that the new one replaces; 0
	// for none.
	PreviousSession uint64
	// Workstation is the name of this machine in the server's logs; it may be empty.
	Workstation string
	// Dialects are the dialects offered, from 2.1 to 3.1.1; others are left out. Default:
	// 3.0, 3.0.2 and 3.1.1.
	Dialects []uint16
	// RequireEncryption encrypts all requests after the logon, and refuses a server that cannot.
	// Without it the server, or a share, decides.
	RequireEncryption bool
	// Ciphers are the ciphers offered, in the order of preference. Dialects 3.0 and 3.0.2 have
	// smbauth.AES128CCM only. Default: smbauth.Ciphers.
	Ciphers []smbauth.Cipher
	// Timeout bounds the time of a request without progress. Default 30 s.
	Timeout time.Duration
	// KeepAlive bounds the time until the end of a server without a sign of life is noticed. An ECHO
	// asks a silent server for one. 0 and below: no check.
	KeepAlive time.Duration
	// Credits is the number of credits that the session asks for, each for 64 KiB in
	// flight. Default 512, clamped to 16..8192.
	Credits int
	// Logger receives negotiation and lost connections; nil is silent.
	Logger *slog.Logger
}

// withDefaults returns a copy with all defaults filled in.
func (c Config) withDefaults() Config {
	known := []uint16{smbwire.Dialect210, smbwire.Dialect300, smbwire.Dialect302, smbwire.Dialect311}
	if len(c.Dialects) == 0 {
		c.Dialects = known[1:]
	} else {
		c.Dialects = slices.DeleteFunc(known, func(d uint16) bool { return !slices.Contains(c.Dialects, d) })
	}
	if c.Ciphers = slices.Clone(c.Ciphers); len(c.Ciphers) == 0 {
		c.Ciphers = smbauth.Ciphers
	}
	if c.NTHash != nil {
		h := *c.NTHash
		c.NTHash = &h
	}
	if c.ClientGUID == [16]byte{} {
		rand.Read(c.ClientGUID[:]) // never fails
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
