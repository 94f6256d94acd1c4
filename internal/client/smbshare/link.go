package smbshare

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/host"
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbclient"
)

// link is one SMB session on one connection, with its share.
type link struct {
	s    *smbclient.Session
	tree *smbclient.Tree
}

// linkMaker makes links. It has the keys of the user, and not the password.
type linkMaker struct {
	dial      func(ctx context.Context) (net.Conn, error)
	host      string
	share     string
	config    smbclient.Config
	keepAlive time.Duration // 0 for none
	addr      *atomic.Pointer[net.TCPAddr]
}

// server returns the address of the newest connection, or the zero Addr.
func (m *linkMaker) server() netip.Addr {
	tcp := m.addr.Load()
	if tcp == nil {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone(tcp.Zone)
}

// newLinkMaker returns the linkMaker of a target.
func newLinkMaker(t *base.Target, cfg *base.Config) (linkMaker, error) {
	host, _, err := net.SplitHostPort(t.Host)
	if err != nil {
		return linkMaker{}, err
	}
	dial, where := cfg.DialContext, t.Host // and not all of cfg, which has the password
	m := linkMaker{
		dial: func(ctx context.Context) (net.Conn, error) { return dial(ctx, "tcp", where) },
		host: host, share: t.Share, addr: new(atomic.Pointer[net.TCPAddr]), keepAlive: max(cfg.KeepAlive, 0),
		config: smbclient.Config{
			User: cfg.User, Domain: cfg.Domain, Kerberos: cfg.Kerberos, Timeout: cfg.Timeout, Logger: cfg.Logger,
			RequireEncryption: cfg.RequireEncryption, KeepAlive: max(cfg.KeepAlive, 0), AppInstance: appInstance(cfg.AppInstance),
		},
	}
	rand.Read(m.config.ClientGUID[:]) // never fails
	if cfg.Kerberos != nil {
		m.config.Password = cfg.Password // the key of a new ticket depends on the KDC
	} else {
		hash := smbauth.NTHash(cfg.Password)
		m.config.NTHash = &hash
	}
	return m, nil
}

// appInstance returns the id of the instance of a program with that name, zero for "".
//
// Source: [MS-SMB2 2.2.13.2.13]
func appInstance(name string) (id [16]byte) {
	if name == "" {
		return id
	}
	sum := sha256.Sum256([]byte("lwio application instance\x00" + name))
	return [16]byte(sum[:])
}

// firstAttempts is the number of connections that the server may end during the first logon. A server that is
// being restarted can do that, and a program that begins then is not to fail.
const firstAttempts = 4

// first makes the first link, over raw, which it owns. again allows further attempts after the server has
// ended the connection.
func (m *linkMaker) first(ctx context.Context, raw net.Conn, again bool) (*link, error) {
	for attempt := 1; ; attempt++ {
		l, err := m.connect(ctx, raw)
		if !smbclient.LeftByServer(err) || !again || attempt == firstAttempts || ctx.Err() != nil {
			return l, err
		}
		var e error
		if raw, e = m.dial(ctx); e != nil {
			return nil, err
		}
	}
}

// connect logs on over raw, which it owns, and connects to the share. The session takes the place of
// the one before.
func (m *linkMaker) connect(ctx context.Context, raw net.Conn) (*link, error) {
	if tcp, ok := raw.RemoteAddr().(*net.TCPAddr); ok {
		m.addr.Store(tcp)
	}
	if m.keepAlive > 0 {
		host.KeepAlive(raw, m.keepAlive)
	}
	first := m.config.PreviousSession == 0
	s, err := smbclient.New(ctx, raw, m.host, m.config)
	if err != nil {
		return nil, err
	}
	m.config.PreviousSession = s.ID() // of the next one
	tree, err := s.TreeConnect(ctx, m.share)
	if err == nil && tree.IsPipe() {
		err = fmt.Errorf("share %s holds pipes, not files", m.share)
	}
	switch {
	case err == nil:
		return &link{s, tree}, nil
	case first:
		s.Close()
	default:
		closeWithoutLogoff(s)
	}
	return nil, err
}

// closeWithoutLogoff ends the connection of s. The server keeps the opens of a persistent session.
func closeWithoutLogoff(s *smbclient.Session) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.CloseContext(ctx) // waits for the goroutines
}
