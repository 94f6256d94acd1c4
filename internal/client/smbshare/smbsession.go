package smbshare

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net"

	"lwio/internal/client/base"
	"lwio/internal/client/handshake"
	"lwio/internal/smb/smbclient"
	"lwio/internal/smb/smbwire"
	"lwio/internal/wire"
)

// firstKeyedDialect is the first with an application key of its own. [OP-46b]
const firstKeyedDialect = 0x0300

// smbSession is a session over the SMB client.
type smbSession struct {
	s          *smbclient.Session
	tree       *smbclient.Tree
	maxListing int64 // bytes
}

// NewSession signs in and connects to the share. It owns raw from now on, also if
// it fails.
func NewSession(ctx context.Context, raw net.Conn, t *base.Target, cfg *base.Config) (Session, error) {
	host, _, err := net.SplitHostPort(t.Host)
	if err != nil {
		raw.Close()
		return nil, err
	}
	s, err := smbclient.New(ctx, raw, host, smbclient.Config{
		User: cfg.User, Password: cfg.Password, Domain: cfg.Domain, Kerberos: cfg.Kerberos, Timeout: cfg.Timeout, Logger: cfg.Logger,
		RequireEncryption: cfg.RequireEncryption,
	})
	if err != nil {
		return nil, err
	}
	tree, err := s.TreeConnect(ctx, t.Share)
	if err == nil && tree.IsPipe() {
		err = fmt.Errorf("share %s holds pipes, not files", t.Share)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return &smbSession{s, tree, cfg.MaxListing}, nil
}

func (s *smbSession) Open(ctx context.Context, req OpenRequest) (Handle, error) {
	f, err := s.tree.Create(ctx, req)
	if err != nil {
		return nil, err
	}
	return smbHandle{f, s.maxListing}, nil
}

func (s *smbSession) Stat(ctx context.Context, name string) (Entry, error) {
	return s.tree.Stat(ctx, name)
}

func (s *smbSession) Mkdir(ctx context.Context, name string) error {
	return changed(s.tree.Mkdir(ctx, name))
}

func (s *smbSession) Remove(ctx context.Context, name string) error {
	return changed(s.tree.Remove(ctx, name))
}

func (s *smbSession) Rename(ctx context.Context, from, to string) error {
	return changed(s.tree.Rename(ctx, from, to, true))
}

// OpenPipe opens a named pipe of the server.
func (s *smbSession) OpenPipe(ctx context.Context, name string) (handshake.Pipe, error) {
	p, err := s.s.OpenPipe(ctx, name)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Encryption is the cipher of the messages of the session, "" if they are signed only.
//
// Source: [OP-114]
func (s *smbSession) Encryption() string { return s.s.Encryption() }

// ApplicationKey returns the application key of the session.
func (s *smbSession) ApplicationKey() ([]byte, bool) {
	key := s.s.ApplicationKey()
	return key[:], s.s.Dialect() >= firstKeyedDialect && key != [16]byte{}
}

func (s *smbSession) Err() error { return s.s.Err() }

func (s *smbSession) Close(ctx context.Context) error { return s.s.CloseContext(ctx) }

// changed marks an error of a change of names whose outcome is unknown.
func changed(err error) error {
	if errors.Is(err, smbclient.ErrUnknownOutcome) {
		return base.Uncertain(err)
	}
	return err
}

// smbHandle is a file over the SMB client. The methods of the file with other parameters than
// those of Handle are adapted.
type smbHandle struct {
	*smbclient.File
	maxListing int64 // bytes
}

func (h smbHandle) Created() Entry { return h.Info() }

func (h smbHandle) ResumeKey(ctx context.Context) (key [24]byte, lwio bool, err error) {
	b, err := h.File.ResumeKey(ctx)
	if err != nil {
		return key, false, err
	}
	k, err := wire.DecodeResumeKey(b)
	if err != nil {
		return key, false, base.ProtocolError("%v", err)
	}
	return k.Key, k.Context != "", nil
}

func (h smbHandle) Lock(ctx context.Context, r Range, exclusive, wait bool) error {
	return h.File.Lock(ctx, r.Off, r.Len, exclusive, wait)
}

func (h smbHandle) Unlock(ctx context.Context, r Range) error {
	return h.File.Unlock(ctx, r.Off, r.Len)
}

func (h smbHandle) Rename(ctx context.Context, name string) error {
	return h.File.Rename(ctx, name, true)
}

func (h smbHandle) Entries(ctx context.Context) ([]Entry, error) {
	return listed(h.ReadDir(ctx, "*"), h.maxListing)
}

// entryCost is the memory of an Entry and of its DirEntry, without the name, in bytes.
const entryCost = 256

var errListing = errors.New("the listing takes more memory than Config.MaxListing")

// listed collects an enumeration. A name that cannot be represented does not end it. An enumeration
// that needs more than limit bytes is given up: a hostile server can send entries without end.
func listed(entries iter.Seq2[Entry, error], limit int64) (list []Entry, err error) {
	var misnamed error // the first
	missing := 0
	for e, err := range entries {
		if limit -= entryCost + int64(len(e.Name)); limit < 0 {
			return list, fmt.Errorf("%w, after %d entries", errListing, len(list)+missing)
		}
		switch {
		case errors.Is(err, smbwire.ErrName):
			if missing++; misnamed == nil {
				misnamed = err
			}
		case err != nil:
			return list, err
		default:
			list = append(list, e)
		}
	}
	if missing > 0 {
		return list, fmt.Errorf("%w: %d entries are missing in the list: %s", fs.ErrInvalid, missing, misnamed.Error())
	}
	return list, nil
}
