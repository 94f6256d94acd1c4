package paths

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/client/handshake"
	"lwio/internal/client/rdmaconn"
	"lwio/rdma"
)

// Set are the RDMA connections of a client, and how they are made.
type Set struct {
	Cfg    base.Config
	Target string // host and port, for the log
	Smb    sessionLife

	Paths       []*Path            // none if there is no RDMA for good
	WithoutRDMA string             // why
	stop        context.CancelFunc // ends the maintainers, if there are paths
	Maintainers sync.WaitGroup     // the goroutines that run Path.maintain
	Buffers     rdmaconn.BufferTable

	Counts                        base.Counts
	Connections, Lost, Reconnects atomic.Uint64
	afterDial                     atomic.Uint64 // connections that are the first of their paths, and came after Dial
	turn                          atomic.Uint32 // which path comes first among equals
	pathsWithUncertainWrites      atomic.Int32  // paths with writes that are uncertain and may still be going on
	Closed                        atomic.Bool
}

// sessionLife is the SMB session, as paths know it.
type sessionLife interface {
	handshake.Session
	// Err is why the session has ended for good, nil as long as it has not.
	Err() error
	// Await waits until there is a session, after a loss another one.
	Await(ctx context.Context) error
	// State describes the session.
	State() base.SessionState
}

// Transport describes the carrier of data now, with the reason.
func (c *Set) Transport() base.Transport {
	t := c.carrier()
	if !t.RDMA() {
		t.Encryption = c.Smb.Encryption()
	}
	if c.Closed.Load() {
		return t
	}
	s := c.Smb.State()
	if s.Away != nil {
		t.Reason += fmt.Sprintf("; there is no SMB session: %v", s.Away)
	} else if s.Reconnects > 0 {
		t.Reason += fmt.Sprintf("; the SMB session was replaced %d times", s.Reconnects)
	}
	t.Reason = strings.TrimPrefix(t.Reason, "; ")
	return t
}

// carrier describes the carrier of data, without the encryption of SMB.
func (c *Set) carrier() base.Transport {
	if len(c.Paths) == 0 {
		if c.Closed.Load() {
			return base.Transport{Name: base.TransportSMB, Reason: base.ErrClientClosed.Error()}
		}
		return base.Transport{Name: base.TransportSMB, Reason: c.WithoutRDMA}
	}
	var t base.Transport
	up := 0
	for _, r := range c.Paths {
		rt := r.transport()
		if rt.RDMA() {
			up++
		}
		if up == 1 || t.Name == "" {
			t = rt
		}
	}
	t.Connections = up
	if n := len(c.Paths); n > 1 {
		t.Reason += fmt.Sprintf("; %d of %d connections", up, n)
	}
	if n := c.afterDial.Load(); n > 0 && t.RDMA() {
		t.Reason += fmt.Sprintf("; %d came after Dial", n)
	}
	if n := c.Reconnects.Load(); n > 0 && t.RDMA() {
		t.Reason += fmt.Sprintf("; took the place of a lost connection %d times", n)
	}
	return t
}

// Live returns the RDMA connection, nil if there is none now.
func (c *Set) Live() *rdmaconn.Conn {
	for _, r := range c.Paths {
		if cn := r.Live(); cn != nil {
			return cn
		}
	}
	return nil
}

// smbDepth is the number of calls that are worth having in flight over SMB alone.
const smbDepth = 16

// MaxInFlight is the number of calls that are worth having in flight: the credits of all
// connections together or, without one, smbDepth.
func (c *Set) MaxInFlight() int {
	sum := 0
	for _, r := range c.Paths {
		if cn := r.Live(); cn != nil {
			granted, _ := cn.Credits()
			sum += granted
		}
	}
	if sum == 0 {
		return smbDepth
	}
	return sum
}

// Home is the connection for a new buffer, or nil. It waits for one to take the place of
// one that was lost.
func (c *Set) Home(ctx context.Context) (*rdmaconn.Conn, error) {
	if cn := c.Live(); cn != nil || len(c.Paths) == 0 {
		return cn, nil
	}
	ctx, cancel := c.Cfg.Bounded(ctx)
	defer cancel()
	return c.LeastBusy(0).Get(ctx, false)
}

// AllUp reports whether every path has a connection. The earlier connections are torn down
// then.
func (c *Set) AllUp() bool {
	for _, r := range c.Paths {
		if cn := r.cn.Load(); cn == nil || cn.IsDown() {
			return false
		}
	}
	return true
}

// End ends the RDMA connections, and waits for that.
func (c *Set) End() {
	if c.stop != nil {
		c.stop()
	}
	ends := make([]*rdmaconn.Conn, len(c.Paths))
	for i, r := range c.Paths {
		ends[i] = r.end(base.ErrClientClosed)
	}
	c.Maintainers.Wait()
	for _, cn := range ends { // all at once
		if cn != nil {
			cn.BeginClose()
		}
	}
	for _, cn := range ends {
		if cn != nil {
			<-cn.Gone()
		}
	}
}

// Begin makes the RDMA connections, if it can, and lets them go on.
func (c *Set) Begin(ctx context.Context) error {
	if c.Cfg.SMBOnly {
		c.WithoutRDMA = "asked for"
		return nil
	}
	list, up, err := c.makePaths(ctx)
	switch {
	case up > 0:
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case c.Smb.Err() != nil: // why there is no RDMA follows from that
		return fmt.Errorf("the SMB session has ended: %w; RDMA: %w", c.Smb.Err(), err)
	case c.Cfg.RequireRDMA:
		return fmt.Errorf("%w: %w", base.ErrNoRDMA, err)
	}
	if err != nil {
		c.logFewer(up, err)
	}
	if c.Cfg.ReconnectTimeout < 0 { // a missing connection stays missing
		list = list[:up]
	}
	if len(list) == 0 {
		c.WithoutRDMA = err.Error()
		return nil
	}
	c.run(list)
	return nil
}

// makePaths makes the paths that the configuration asks for, and their connections as
// far as that can be done: the first up of them have one, err is why the others have not.
func (c *Set) makePaths(ctx context.Context) (list []*Path, up int, err error) {
	for i := range c.Cfg.Connections {
		r := c.newPath(i)
		list = append(list, r)
		if err != nil {
			r.why = err
			continue
		}
		if err = r.begin(ctx); err == nil {
			up++
		}
	}
	return list, up, err
}

// logFewer logs why there are not as many connections as asked for.
func (c *Set) logFewer(up int, err error) {
	then := "it is tried again"
	if c.Cfg.ReconnectTimeout < 0 {
		then = "it stays so"
	}
	if up > 0 {
		c.Cfg.Logger.Warn("lwio: fewer RDMA connections than asked for", "server", c.Target, "asked for", c.Cfg.Connections,
			"made", up, "err", err, "then", then)
		return
	}
	log := c.Cfg.Logger.Info
	if errors.Is(err, base.ErrSpoofed) || errors.Is(err, base.ErrProtocol) {
		log = c.Cfg.Logger.Warn
	}
	log("lwio: no RDMA, going on over SMB", "server", c.Target, "reason", err, "then", then)
}

// run watches over the paths from now on.
func (c *Set) run(list []*Path) {
	c.Paths = list
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	for _, r := range list {
		c.Maintainers.Add(1)
		go r.maintain(ctx)
	}
}

// connectTimeout bounds connecting to one address, AUTH included. [OP-44]
const connectTimeout = 5 * time.Second

// connectTo connects to one address, authenticates, and registers the buffers.
func (c *Set) connectTo(ctx context.Context, r *Path, assoc *handshake.Association, p rdma.Provider, remote rdma.Addr) (*rdmaconn.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, min(connectTimeout, c.Cfg.Timeout))
	defer cancel()
	cn, err := rdmaconn.DialConn(ctx, p, remote, rdmaconn.ConnConfig{
		Owner:   r,
		Credits: c.Cfg.Credits, CopyThreshold: c.Cfg.CopyThreshold, ReadSize: c.Cfg.MaxReadSize, Window: c.Cfg.MaxRDMAWindowSize,
		Timeout: c.Cfg.Timeout, Mode: c.Cfg.Completion, Counts: &c.Counts, Seal: c.Cfg.RequireEncryption || c.Smb.Encryption() != "",
	})
	if err != nil {
		return nil, err
	}
	if err := cn.Authenticate(ctx, assoc, r.last, c.Cfg.AllowMD5); err != nil {
		cn.Close()
		return nil, fmt.Errorf("authenticate %v: %w", remote, err)
	}
	if err := c.Buffers.Register(ctx, cn); err != nil {
		cn.Close()
		return nil, fmt.Errorf("register buffers: %w", err)
	}
	c.Connections.Add(1)
	granted, _ := cn.Credits()
	c.Cfg.Logger.Info("lwio: RDMA connection", "server", c.Target, "provider", p.Name(), "addr", remote.String(),
		"credits", granted, "keyed", cn.Transport().Keyed)
	return cn, nil
}

// Fence makes sure that no write of a broken connection goes on at the server (Path.Fence). A call
// needs it before a change over SMB, and before it reports data as on stable storage.
//
// Source: [OP-112]
func (c *Set) Fence(ctx context.Context) error {
	for _, r := range c.Paths {
		if err := r.Fence(ctx); err != nil {
			return err
		}
	}
	return nil
}
