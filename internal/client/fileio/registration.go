package fileio

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"

	"lwio/internal/client/base"
	"lwio/internal/client/paths"
	"lwio/internal/client/rdmaconn"
	"lwio/internal/ntstatus"
)

// registration is the state of a file on an RDMA connection.
type registration struct {
	conn *rdmaconn.Conn
	fid  uint16 // 0: the server does not want this file on RDMA
	why  string // the reason, where fid is 0
}

// pathNow is the connection of a path, and the file id, if the file was used on it before.
func (f *File) pathNow(r *paths.Path) (*rdmaconn.Conn, uint16) {
	if g := f.regs[r.Index].Load(); g != nil && g.fid != 0 && g.conn == r.Current() && !g.conn.IsDown() {
		return g.conn, g.fid
	}
	return nil, 0
}

// isOnSMB reports whether the client has no RDMA, or the server has refused the file on all
// connections. It is false before the first operation, and where RDMA is required.
func (f *File) isOnSMB() bool {
	if f.c.Cfg.RequireRDMA {
		return false
	}
	for i := range f.regs {
		if g := f.regs[i].Load(); g == nil || g.fid != 0 || g.conn.IsDown() {
			return false
		}
	}
	return true
}

// errPathDown reports that a path has no connection at present.
var errPathDown = errors.New("the path has no connection at present")

// access is how a caller of pathFor uses a path.
type access struct {
	replays  bool // the caller has writes to send again there
	inFlight bool // the caller has requests in flight, and must not wait for a connection
}

// pathFor returns the connection of one path, and the file id, and registers the file there if
// needed.
//
// Errors: errPathDown if access.inFlight is set and the path has no connection; ctx's; base.ErrNoRDMA.
func (f *File) pathFor(ctx context.Context, r *paths.Path, use access) (*rdmaconn.Conn, uint16, error) {
	if cn, fid := f.pathNow(r); cn != nil {
		return cn, fid, nil
	}
	ctx, cancel := f.c.Cfg.Bounded(ctx)
	defer cancel()
	for range maxLosses {
		cn, err := connectionOf(ctx, r, use)
		if err != nil {
			return nil, 0, err
		}
		if cn == nil {
			break
		}
		g := f.regs[r.Index].Load()
		if g == nil || g.conn != cn {
			if g, err = f.register(ctx, cn, !use.inFlight); err != nil {
				return nil, 0, err
			}
		}
		switch {
		case g.fid != 0:
			return cn, g.fid, nil
		case !cn.IsDown():
			return nil, 0, f.noRDMA(errors.New(g.why))
		}
	}
	if f.c.Closed.Load() {
		return nil, 0, base.ErrClientClosed
	}
	return nil, 0, f.noRDMA(r.Reason())
}

// connectionOf returns the connection of a path, or nil if there will be none.
func connectionOf(ctx context.Context, r *paths.Path, use access) (*rdmaconn.Conn, error) {
	if !use.inFlight {
		return r.Get(ctx, use.replays)
	}
	if cn := r.Now(use.replays); cn != nil {
		return cn, nil
	}
	return nil, errPathDown
}

// noRDMA is an error if RDMA is required.
func (f *File) noRDMA(why error) error {
	if !f.c.Cfg.RequireRDMA {
		return nil
	}
	return fmt.Errorf("%w: %w", base.ErrNoRDMA, why)
}

// register makes the file known on cn, once. patient lets it wait for an SMB session.
//
// Source: [LWIO §File Registration]
func (f *File) register(ctx context.Context, cn *rdmaconn.Conn, patient bool) (*registration, error) {
	ctx, cancel := f.c.Cfg.Bounded(ctx)
	defer cancel()
	token := f.registering[paths.PathOf(cn).Index]
	select {
	case token <- struct{}{}:
		defer func() { <-token }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	known := &f.regs[paths.PathOf(cn).Index]
	if g := known.Load(); g != nil && g.conn == cn {
		return g, nil
	}
	g, err := f.registerNow(ctx, cn, patient)
	switch {
	case err != nil:
		return nil, err
	case g.fid == 0 && f.closed.Load():
		return nil, fs.ErrClosed // and so the server knows no such file
	case g.fid == 0 && !cn.IsDown():
		f.c.Cfg.Logger.Info("lwio: file goes over SMB", "name", f.name, "reason", g.why)
	}
	known.Store(g)
	return g, nil
}

// tokens are n places for one token each.
func tokens(n int) []chan struct{} {
	list := make([]chan struct{}, n)
	for i := range list {
		list[i] = make(chan struct{}, 1)
	}
	return list
}

// registerAttempts bounds the REGISTER messages of a file on a connection. After a restart a server knows a key only when the
// open is reclaimed over SMB, and it may die again meanwhile.
const registerAttempts = 4

// registerNow asks for the resume key and sends REGISTER. A file that the server refuses goes over SMB. An unknown key
// may be of a session that is lost: it is asked for again, over a session on which the open is reclaimed, or without
// patient left to a later call.
//
// Errors: errPathDown for a key that is left to a later call.
func (f *File) registerNow(ctx context.Context, cn *rdmaconn.Conn, patient bool) (g *registration, err error) {
	for attempt := range registerAttempts {
		var unknown bool
		if g, unknown, err = f.registerOnce(ctx, cn, attempt > 0); !unknown || f.closed.Load() || cn.IsDown() {
			break
		}
		if !patient {
			return nil, errPathDown
		}
	}
	return g, err
}

// registerOnce is registerNow with one REGISTER. current asks for the key of the present session. unknown says that the
// server has not known the key.
func (f *File) registerOnce(ctx context.Context, cn *rdmaconn.Conn, current bool) (g *registration, unknown bool, err error) {
	key, lwio, err := f.h.ResumeKey(ctx, current)
	switch {
	case ctx.Err() != nil:
		return nil, false, context.Cause(ctx)
	case errors.Is(err, base.ErrStale), errors.Is(err, net.ErrClosed) && f.c.sess.Err() == nil:
		return nil, false, err // the connection is lost, the next one may have the key
	case err != nil:
		return &registration{conn: cn, why: "no resume key: " + err.Error()}, false, nil
	case !lwio:
		return &registration{conn: cn, why: "the server does not offer LWIO for this file"}, false, nil
	}
	fid, err := cn.Register(ctx, key, f.options)
	switch {
	case err == nil:
		return &registration{conn: cn, fid: fid}, false, nil
	case ctx.Err() != nil:
		return nil, false, context.Cause(ctx)
	}
	return &registration{conn: cn, why: "REGISTER: " + err.Error()}, errors.Is(err, ntstatus.ObjectNameNotFound), nil
}
