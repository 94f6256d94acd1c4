package lwio

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"time"

	"lwio/internal/handshake"
	"lwio/rdma"
)

// Dial connects to the server and the share that rawURL names: an SMB session,
// and an RDMA connection if both sides have a provider in common. The path of the
// URL is not used. An RDMA connection that cannot be made now is tried again later, see
// Config.Reconnect. ?provider=smb in the URL is Config.SMBOnly; ?provider= with the
// name of an RDMA provider uses that one alone and is Config.RequireRDMA. cfg may
// be nil.
//
// Errors: *Error: ECONNREFUSED and the like, fs.ErrPermission for a wrong user name
// or password, fs.ErrNotExist for an unknown share, [ErrNoRDMA] with RequireRDMA,
// [ErrSpoofed] among its causes.
//
// Source: [LWIO §Discovery], [LWIO §Network Discovery], [LWIO claim 7], [LWIO claim 9]
func Dial(ctx context.Context, rawURL string, cfg *Config) (*Client, error) {
	t, err := ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	return DialTarget(ctx, t, cfg)
}

// DialTarget is Dial with a URL that was parsed, and perhaps given a password,
// before.
func DialTarget(ctx context.Context, t *Target, cfg *Config) (*Client, error) {
	c, err := dial(ctx, t, cfg.withDefaults())
	if err != nil {
		return nil, wrap("dial", t.Host+"/"+t.Share, err)
	}
	return c, nil
}

func dial(ctx context.Context, t *Target, cfg Config) (*Client, error) {
	if err := cfg.apply(t); err != nil {
		return nil, err
	}
	ctx, cancel := cfg.bounded(ctx)
	defer cancel()
	raw, err := cfg.DialContext(ctx, "tcp", t.Host)
	if err != nil {
		return nil, err
	}
	sess, err := newSession(ctx, raw, t, &cfg)
	if err != nil {
		return nil, err
	}
	c, err := newClient(ctx, sess, addrOf(raw.RemoteAddr()), t, cfg)
	if err != nil {
		sess.close(ctx)
		return nil, err
	}
	return c, nil
}

// apply merges what the URL asks for.
func (c *Config) apply(t *Target) error {
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

// newClient makes the client of a session, with an RDMA connection if it can.
func newClient(ctx context.Context, sess session, server netip.Addr, t *Target, cfg Config) (*Client, error) {
	c := &Client{cfg: cfg, target: *t, sess: sess, server: server}
	c.target.Password = ""
	c.cfg.Password = ""
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// begin makes the RDMA connections, if it can, and lets them go on.
func (c *Client) begin(ctx context.Context) error {
	if c.cfg.SMBOnly {
		c.withoutRDMA = "asked for"
		return nil
	}
	rails, up, err := c.makeRails(ctx)
	switch {
	case up > 0:
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case c.sess.err() != nil: // why there is no RDMA follows from that
		return fmt.Errorf("the SMB session has ended: %w; RDMA: %w", c.sess.err(), err)
	case c.cfg.RequireRDMA:
		return fmt.Errorf("%w: %w", ErrNoRDMA, err)
	}
	if err != nil {
		c.sayFewer(up, err)
	}
	if c.cfg.Reconnect < 0 { // what is not there now will not come
		rails = rails[:up]
	}
	if len(rails) == 0 {
		c.withoutRDMA = err.Error()
		return nil
	}
	c.run(rails)
	return nil
}

// makeRails makes the rails that the configuration asks for, and their connections as
// far as that can be done: the first up of them have one, err is why the others have not.
func (c *Client) makeRails(ctx context.Context) (rails []*rail, up int, err error) {
	for i := range c.cfg.Connections {
		r := c.newRail(i)
		rails = append(rails, r)
		if err != nil {
			r.why = err
			continue
		}
		if err = r.begin(ctx); err == nil {
			up++
		}
	}
	return rails, up, err
}

// sayFewer logs why there are not as many connections as asked for.
func (c *Client) sayFewer(up int, err error) {
	then := "it is tried again"
	if c.cfg.Reconnect < 0 {
		then = "it stays so"
	}
	if up > 0 {
		c.cfg.Logger.Warn("lwio: fewer RDMA connections than asked for", "server", c.target.Host, "asked for", c.cfg.Connections,
			"made", up, "err", err, "then", then)
		return
	}
	log := c.cfg.Logger.Info
	if errors.Is(err, ErrSpoofed) || errors.Is(err, ErrProtocol) {
		log = c.cfg.Logger.Warn
	}
	log("lwio: no RDMA, going on over SMB", "server", c.target.Host, "reason", err, "then", then)
}

// run watches over the rails from now on.
func (c *Client) run(rails []*rail) {
	c.rails = rails
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	for _, r := range rails {
		c.keepers.Add(1)
		go r.keep(ctx)
	}
}

// connectTimeout bounds connecting to one address, AUTH included. [OP-44]
const connectTimeout = 5 * time.Second

// connectTo connects to one address, authenticates, and registers the buffers.
func (c *Client) connectTo(ctx context.Context, r *rail, assoc *handshake.Association, p rdma.Provider, remote rdma.Addr) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, min(connectTimeout, c.cfg.Timeout))
	defer cancel()
	cn, err := dialConn(ctx, p, remote, connConfig{
		credits: c.cfg.Credits, smallRead: c.cfg.SmallRead, readSize: c.cfg.MaxReadSize, window: c.cfg.MaxRdmaWindowSize,
		timeout: c.cfg.Timeout, mode: c.cfg.Completion, counts: &c.counts,
	})
	if err != nil {
		return nil, err
	}
	cn.rail = r
	if err := cn.authenticate(ctx, assoc, r.last, c.cfg.AllowMD5); err != nil {
		cn.close()
		return nil, fmt.Errorf("authenticate %v: %w", remote, err)
	}
	if err := c.buffers.lease(ctx, cn); err != nil {
		cn.close()
		return nil, fmt.Errorf("register buffers: %w", err)
	}
	c.connections.Add(1)
	c.cfg.Logger.Info("lwio: RDMA connection", "server", c.target.Host, "provider", p.Name(), "addr", remote.String(),
		"credits", cn.credits.current(), "keyed", cn.peer.keyed)
	return cn, nil
}

// fence makes the server forget writes that broken connections may still carry, before
// anything is changed over SMB, or said to be on stable storage.
//
// Source: [OP-112]
func (c *Client) fence(ctx context.Context) error {
	for _, r := range c.rails {
		if err := r.fence(ctx); err != nil {
			return err
		}
	}
	return nil
}

// addrOf is the IP address of a TCP end point, or the zero Addr.
func addrOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone(tcp.Zone)
	}
	return netip.Addr{}
}

// noLocalAddr leaves the choice of the adapter to the provider.
var noLocalAddr netip.Addr
