package smbshare

import (
	"context"

	"lwio/internal/client/handshake"
	"lwio/internal/smb/smbclient"
)

// pipe is a named pipe of a session. After a loss it is opened again on the next link.
type pipe struct {
	s    *session
	name string
	on   *link
	p    *smbclient.Pipe // on that link
}

// OpenPipe opens a named pipe of the server.
func (s *session) OpenPipe(ctx context.Context, name string) (handshake.Pipe, error) {
	p := &pipe{s: s, name: name}
	if err := s.try(ctx, true, func(l *link) error { return p.open(ctx, l) }); err != nil {
		return nil, err
	}
	return p, nil
}

// open opens the pipe on l, if it is not open there.
func (p *pipe) open(ctx context.Context, l *link) error {
	if p.on == l {
		return nil
	}
	opened, err := l.s.OpenPipe(ctx, p.name)
	if err == nil {
		p.p, p.on = opened, l
	}
	return err
}

// Transact sends the message again after a loss: the server may handle it twice.
func (p *pipe) Transact(ctx context.Context, in []byte, maxOut int) (out []byte, err error) {
	err = p.s.try(ctx, true, func(l *link) (err error) {
		if err = p.open(ctx, l); err == nil {
			out, err = p.p.Transact(ctx, in, maxOut)
		}
		return err
	})
	return out, err
}

// Close closes the pipe on the link where it was used last.
func (p *pipe) Close() error { return p.p.Close() }
