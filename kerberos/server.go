package kerberos

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"lwio/internal/smb/smbauth"
)

// Bounds of the clock skew.
const (
	defaultClockSkew = 5 * time.Minute
	maxClockSkew     = time.Hour
)

// ServerConfig configures a Server. NewServer copies it.
type ServerConfig struct {
	// Keytab is the content of a keytab with the keys of the service cifs/HOST.
	Keytab []byte
	// Realm is the realm of the users and of the service. Default: the realm of the keys. Keys of
	// other realms are not used.
	Realm string
	// ClockSkew is the accepted difference to the clocks of clients. Default 5 min, at most 1 h.
	ClockSkew time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Server checks the tickets of clients. It is for server.Config.Kerberos. Safe for concurrent use.
//
// A ticket is accepted if it is for the service cifs/HOST with a key in the keytab, and of a user NAME of
// the realm. Principals of other realms, and names with several components such as NAME/admin, are
// refused. The ticket must be valid by the clock of the server, and its session ends with it unless the
// client authenticates again. Each authenticator is accepted once.
type Server struct {
	realm   string
	skew    time.Duration
	now     func() time.Time
	keys    atomic.Pointer[[]serviceKey]
	replays *replays
	// turns bounds the requests that are checked at a time, and so the memory for their parts.
	turns chan struct{}
}

// NewServer returns a Server with the keys of a keytab.
//
// Errors: a keytab without a usable key, or with keys of several realms while none is configured. An
// error has no content of the keytab.
func NewServer(cfg ServerConfig) (*Server, error) {
	keys, err := parseKeytab(cfg.Keytab)
	if err != nil {
		return nil, fmt.Errorf("kerberos: %w", err)
	}
	keys, realm, err := keysIn(keys, cfg.Realm)
	if err != nil {
		return nil, fmt.Errorf("kerberos: %w", err)
	}
	if cfg.ClockSkew <= 0 {
		cfg.ClockSkew = defaultClockSkew
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Server{realm: realm, skew: min(cfg.ClockSkew, maxClockSkew), now: cfg.Now, turns: make(chan struct{}, runtime.GOMAXPROCS(0))}
	s.replays = newReplays(2 * s.skew)
	s.keys.Store(&keys)
	return s, nil
}

// Realm returns the realm of the users.
func (s *Server) Realm() string { return s.realm }

// SetKeytab replaces the keys, for example after a change of the keytab. The realm stays the same. After
// an error the keys are unchanged.
func (s *Server) SetKeytab(content []byte) error {
	keys, err := parseKeytab(content)
	if err == nil {
		keys, _, err = keysIn(keys, s.realm)
	}
	if err != nil {
		return fmt.Errorf("kerberos: %w", err)
	}
	s.keys.Store(&keys)
	return nil
}

// Accept checks a request. It is the interface to package server.
//
// Source: [RFC 4120 §3.2.3], [RFC 4121 §4.1]
func (s *Server) Accept(q *smbauth.KerberosRequest) (c *smbauth.KerberosContext, err error) {
	s.turns <- struct{}{}
	defer func() { <-s.turns }()
	defer guard(&err)
	r := request{server: s, q: q, now: s.now()}
	if err := r.openTicket(); err != nil {
		return nil, err
	}
	if err := r.openAuthenticator(); err != nil {
		return nil, err
	}
	return r.context()
}
