package fileio

import (
	"context"

	"lwio/internal/client/base"
	"lwio/internal/client/smbshare"
)

// DialTarget connects to the server and the share that t names.
func DialTarget(ctx context.Context, t *base.Target, cfg *base.Config) (*Client, error) {
	c, err := dial(ctx, t, cfg.WithDefaults())
	if err != nil {
		return nil, base.Wrap("dial", t.Host+"/"+t.Share, err)
	}
	return c, nil
}

func dial(ctx context.Context, t *base.Target, cfg base.Config) (*Client, error) {
	if err := cfg.Apply(t); err != nil {
		return nil, err
	}
	ctx, cancel := cfg.Bounded(ctx)
	defer cancel()
	raw, err := cfg.DialContext(ctx, "tcp", t.Host)
	if err != nil {
		return nil, err
	}
	sess, err := smbshare.NewSession(ctx, raw, t, &cfg)
	if err != nil {
		return nil, err
	}
	c, err := newClient(ctx, sess, t, cfg)
	if err != nil {
		sess.Close(ctx)
		return nil, err
	}
	return c, nil
}

// newClient makes the client of a session, with an RDMA connection if it can.
func newClient(ctx context.Context, sess smbshare.Session, t *base.Target, cfg base.Config) (*Client, error) {
	c := &Client{sess: sess}
	c.Cfg, c.Target, c.Smb = cfg, t.Host, sess
	c.Cfg.Password = ""
	if err := c.Begin(ctx); err != nil {
		return nil, err
	}
	return c, nil
}
