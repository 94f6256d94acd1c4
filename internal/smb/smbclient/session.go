package smbclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbauth"
	"lwio/internal/smb/smbwire"
)

// closeGrace bounds the wait of Close for the response to LOGOFF.
const closeGrace = time.Second

// Session is an authenticated user on a connection.
//
// Source: [MS-SMB2 3.2.1.3]
type Session struct {
	conn *conn
	host string
	app  [16]byte // Config.AppInstance
	keys smbauth.SessionKeys
	neg  *negotiation

	validated atomic.Bool // by FSCTL_VALIDATE_NEGOTIATE_INFO
	closing   sync.Once
	loggedOff atomic.Bool // the server has answered the LOGOFF
}

// New negotiates and logs on. host is the server's name in the names of shares, without a
// port. The session owns nc from now on, and closes it also if New fails.
//
// Errors: *Error. A refused user or password is ntstatus.LogonFailure, which is
// fs.ErrPermission; ErrDialect, ErrEncryption, ErrGuest, ErrSignature and ErrProtocol are
// faults of the server.
//
// Source: [MS-SMB2 3.2.4.2]
func New(ctx context.Context, nc net.Conn, host string, cfg Config) (*Session, error) {
	cfg = cfg.withDefaults()
	s := &Session{conn: newConn(nc, &cfg), host: host, app: cfg.AppInstance}
	op := "negotiate"
	var expires time.Time
	var err error
	if s.neg, err = s.conn.negotiate(ctx, host, &cfg); err == nil {
		op = "logon"
		s.keys, expires, err = s.conn.logon(ctx, host, &cfg, s.neg)
	}
	if err != nil {
		s.conn.close()
		return nil, fail(op, host, err)
	}
	cfg.Logger.Debug("smb: session", "server", host, "dialect", fmt.Sprintf("%#04x", s.conn.agreed.dialect),
		"signing", s.neg.signing, "encryption", s.Encryption(), "user", cfg.User)
	if cfg.KeepAlive > 0 {
		s.conn.wg.Go(func() { s.conn.keepAlive(cfg.KeepAlive) })
	}
	s.conn.wg.Go(func() {
		s.conn.keepAuthenticated(expires, func(ctx context.Context) (time.Time, error) {
			return s.conn.renew(ctx, host, &cfg, s.neg)
		})
	})
	return s, nil
}

// ApplicationKey returns the secret that client and server share for other protocols. Below
// dialect 3.0 it is the session key itself.
//
// Source: [MS-SMB2 3.2.1.3], [OP-46b]
func (s *Session) ApplicationKey() [16]byte { return s.keys.Application }

// Dialect returns the negotiated dialect, such as 0x0311.
func (s *Session) Dialect() uint16 { return s.conn.agreed.dialect }

// Encryption returns the name of the cipher with which requests are encrypted now, "" if they
// are signed.
func (s *Session) Encryption() string {
	if e := s.conn.encrypting(); e != nil {
		return e.cipher.String()
	}
	return ""
}

// ServerGUID returns the GUID of the server, which the two sides have authenticated.
//
// Source: [MS-SMB2 2.2.4]
func (s *Session) ServerGUID() [16]byte { return s.neg.response.ServerGUID }

// ID returns the id by which a later session of the same user replaces this one, in
// Config.PreviousSession.
//
// Source: [MS-SMB2 3.2.1.3]
func (s *Session) ID() uint64 { return s.conn.agreed.sessionID }

// Done returns a channel that is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.conn.end.down }

// Err returns the cause of the session's end, which wraps net.ErrClosed, nil before it.
func (s *Session) Err() error { return s.conn.end.cause() }

// Close is CloseContext with the background context.
func (s *Session) Close() error { return s.CloseContext(context.Background()) }

// CloseContext logs off, which closes all opens, closes the connection, and waits for the
// goroutines of the session. Requests in flight end with net.ErrClosed, unless the server
// has executed them. The end of ctx ends the wait for the server; if it has ended before,
// LOGOFF is not sent. A second call only waits.
func (s *Session) CloseContext(ctx context.Context) error {
	s.closing.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, min(closeGrace, s.conn.timeout))
		defer cancel()
		if ctx.Err() != nil {
			return
		}
		defer context.AfterFunc(ctx, func() { s.conn.fail(net.ErrClosed) })() // ends a write, too
		err := s.logoff(ctx)
		s.loggedOff.Store(err == nil)
		if err != nil && s.conn.end.cause() == nil {
			s.conn.log.Debug("smb: logoff", "server", s.host, "error", err)
		}
	})
	s.conn.close()
	return nil
}

// LoggedOff reports whether the server has answered the LOGOFF of CloseContext.
func (s *Session) LoggedOff() bool { return s.loggedOff.Load() }

// logoff ends the session at the server.
//
// Source: [MS-SMB2 3.2.4.23]
func (s *Session) logoff(ctx context.Context) error {
	s.conn.leaving.Store(true)
	return s.conn.run(ctx, request{command: smbwire.CommandLogoff, body: smbwire.Empty{}})
}

// TreeConnect connects to a share, such as IPC$.
//
// Errors: *Error. A share that does not exist is ntstatus.BadNetworkName, which is
// fs.ErrNotExist; one that requires encryption is ErrEncryption if the connection has none.
//
// Source: [MS-SMB2 3.2.4.2.4]
func (s *Session) TreeConnect(ctx context.Context, share string) (*Tree, error) {
	t, err := s.treeConnect(ctx, share)
	if err != nil {
		return nil, fail("connect", share, err)
	}
	return t, nil
}

func (s *Session) treeConnect(ctx context.Context, share string) (*Tree, error) {
	path, err := smbwire.UTF16(`\\` + s.host + `\` + share)
	if err != nil {
		return nil, err
	}
	r, err := s.conn.call(ctx, request{
		command: smbwire.CommandTreeConnect, body: &smbwire.TreeConnectRequest{Path: path},
		late: func(ctx context.Context, r *response) {
			if r.Status == ntstatus.Success {
				_ = (&Tree{s: s, id: r.TreeID}).disconnect(ctx) // if it fails, the session's end does it
			}
		},
	})
	if err != nil {
		return nil, err
	}
	defer s.conn.free(r)
	resp, err := smbwire.DecodeTreeConnectResponse(r.body())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	t := &Tree{s: s, id: r.TreeID, pipe: resp.ShareType == smbwire.ShareTypePipe}
	t.persistent = resp.Capabilities&smbwire.ShareCapContinuousAvailability != 0 &&
		s.neg.response.Capabilities&smbwire.CapPersistentHandles != 0 && s.conn.agreed.dialect >= smbwire.Dialect300
	if resp.ShareFlags&smbwire.ShareFlagEncryptData != 0 && !s.conn.require() {
		return nil, errors.Join(ErrEncryption, t.disconnect(ctx))
	}
	if err := s.validate(ctx, t); err != nil {
		return nil, err
	}
	return t, nil
}

// validate compares the negotiation with the server's view of it, in a signed message. In
// dialect 3.1.1 the pre-authentication hash does that.
//
// Source: [MS-SMB2 3.2.5.5], [MS-SMB2 3.2.5.14.12]
func (s *Session) validate(ctx context.Context, t *Tree) error {
	if s.conn.agreed.dialect == smbwire.Dialect311 || s.validated.Load() {
		return nil
	}
	q := smbwire.ValidateNegotiateRequest{
		Capabilities: s.neg.request.Capabilities, GUID: s.neg.request.ClientGUID,
		SecurityMode: s.neg.request.SecurityMode, Dialects: s.neg.request.Dialects,
	}
	out, err := t.ioctl(ctx, smbwire.RelatedFileID, smbwire.FsctlValidateNegotiateInfo, q.AppendTo(nil), 24)
	if s.conn.agreed.dialect < smbwire.Dialect300 && isUnsupported(err) {
		s.validated.Store(true)
		return nil // older servers do not know the request; their refusal is signed
	}
	if err == nil {
		var v smbwire.ValidateNegotiateResponse
		v, err = smbwire.DecodeValidateNegotiateResponse(out)
		want := smbwire.ValidateNegotiateResponse{
			Capabilities: s.neg.response.Capabilities, GUID: s.neg.response.ServerGUID,
			SecurityMode: s.neg.response.SecurityMode, Dialect: s.neg.response.Dialect,
		}
		if err == nil && v == want {
			s.validated.Store(true)
			return nil
		}
	}
	if ctx.Err() != nil || s.conn.end.cause() != nil {
		return err
	}
	err = errors.Join(ErrDowngrade, err)
	s.conn.fail(err)
	return err
}

// isUnsupported reports whether an error is the refusal of an unknown control code.
func isUnsupported(err error) bool {
	for _, st := range []ntstatus.Status{
		ntstatus.NotSupported, ntstatus.InvalidDeviceRequest, ntstatus.FileClosed, ntstatus.InvalidParameter,
	} {
		if errors.Is(err, st) {
			return true
		}
	}
	return false
}
