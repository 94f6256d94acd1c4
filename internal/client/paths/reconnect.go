package paths

import (
	"context"
	"fmt"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/client/handshake"
	"lwio/internal/client/rdmaconn"
)

// The times of reconnection.
const (
	// waitParts bounds the time between two attempts while calls wait: it is at most one of so
	// many parts of Config.ReconnectTimeout.
	waitParts = 8
	// firstPause and maxFirstPause bound it for a connection that could not be made when
	// the client was: often it never can.
	firstPause    = time.Second
	maxFirstPause = time.Minute
	// attemptTimeout bounds one attempt.
	attemptTimeout = 2 * connectTimeout
)

// maintain makes the first connection if there is none yet, and replaces each lost connection. It ends
// with ctx or the SMB session.
func (r *Path) maintain(ctx context.Context) {
	defer r.Set.Maintainers.Done()
	cn := r.last
	var pause base.Backoff
	if cn == nil {
		pause = base.NewBackoff(firstPause)
		cn = r.make(ctx, nil, &pause)
	}
	for cn != nil {
		select {
		case <-cn.Down():
		case <-ctx.Done():
			return
		}
		r.lose(cn)
		if r.Set.Cfg.ReconnectTimeout < 0 {
			return
		}
		pause.Lived(cn.Age(), cn.Used())
		cn = r.replace(ctx, cn, &pause)
	}
}

// replace makes a connection in place of cn. It returns nil if there will be none.
func (r *Path) replace(ctx context.Context, cn *rdmaconn.Conn, pause *base.Backoff) *rdmaconn.Conn {
	select {
	case <-cn.Gone(): // with it all calls have left, and counted their replays
	case <-ctx.Done():
		return nil
	}
	return r.make(ctx, cn, pause)
}

// make makes a connection in place of cn, or the first one, with as many attempts as it
// takes. It returns nil if there will be none.
func (r *Path) make(ctx context.Context, cn *rdmaconn.Conn, pause *base.Backoff) *rdmaconn.Conn {
	for try := 1; pause.Sleep(ctx, r.longestPause()); try++ {
		_ = r.Set.Smb.Await(ctx) // without a session the attempt fails, and says why
		next, err := r.attempt(ctx)
		if err == nil {
			return r.replaced(cn, next, try)
		}
		if e := r.Set.Smb.Err(); e != nil {
			r.end(base.Reasons{r.loss(), fmt.Errorf("the SMB session has ended too: %w", e)})
			lost := "lwio: SMB session lost"
			if cn != nil {
				lost += ", and the RDMA connection with it"
			}
			r.Set.Cfg.Logger.Warn(lost, "server", r.Set.Target, "err", e)
			return nil
		}
		if ctx.Err() == nil {
			r.failed(err, try)
		}
	}
	return nil
}

// loss returns the reason of the loss, without the errors of attempts to replace the connection.
func (r *Path) loss() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != nil {
		return r.last.Err()
	}
	return r.why
}

// longestPause bounds the time until the next attempt.
func (r *Path) longestPause() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.last == nil:
		return maxFirstPause
	case time.Now().After(r.until):
		return base.MaxPause
	}
	return min(max(r.Set.Cfg.ReconnectTimeout/waitParts, base.MinPause), base.MaxPause)
}

// attempt tries once to make a connection.
func (r *Path) attempt(ctx context.Context) (*rdmaconn.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, min(attemptTimeout, r.Set.Cfg.Timeout))
	defer cancel()
	return r.connect(ctx)
}

// replaced hands out the connection that takes the place of cn, or is the first.
func (r *Path) replaced(cn, next *rdmaconn.Conn, tries int) *rdmaconn.Conn {
	count := &r.Set.Reconnects
	if cn == nil {
		count = &r.Set.afterDial
	}
	count.Add(1) // before a call can see it
	if !r.offer(next) {
		next.Close()
		return nil
	}
	if cn == nil {
		r.Set.Cfg.Logger.Info("lwio: RDMA connection established after retries", "server", r.Set.Target, "provider", next.Fabric, "addr", next.Remote.String(), "attempts", tries)
		return next
	}
	r.Set.Cfg.Logger.Info("lwio: RDMA connection replaced", "server", r.Set.Target, "provider", next.Fabric, "addr", next.Remote.String(),
		"attempts", tries, "outcomes of writes known", next.Lineage == cn.Lineage)
	return next
}

// failed notes why an attempt failed. The log gets the first failure, and each after
// which calls do not wait any more; where there never was a connection, each that is
// another one than before.
func (r *Path) failed(err error, try int) {
	r.mu.Lock()
	if r.last == nil {
		news := r.why.Error() != err.Error()
		if r.state == pathLost {
			r.why = err
		}
		r.mu.Unlock()
		if news {
			r.Set.Cfg.Logger.Info("lwio: still no RDMA", "server", r.Set.Target, "attempt", try, "reason", err)
		}
		return
	}
	if r.state == pathLost {
		r.why = base.Reasons{r.last.Err(), fmt.Errorf("attempt %d to replace it: %w", try, err)}
	}
	away := time.Now().After(r.until)
	r.mu.Unlock()
	if try == 1 || away {
		r.Set.Cfg.Logger.Warn("lwio: the RDMA connection is not replaced yet", "server", r.Set.Target, "attempt", try, "calls wait", !away, "err", err)
	}
}

// connect negotiates, which ends the earlier connections of the path at the server, and connects
// in the place of the last connection.
func (r *Path) connect(ctx context.Context) (*rdmaconn.Conn, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	assoc, err := r.negotiate(ctx)
	if err != nil {
		return nil, err
	}
	return r.Set.connect(ctx, r, assoc)
}

// negotiate asks the server with the path's key. The caller has the turn.
func (r *Path) negotiate(ctx context.Context) (*handshake.Association, error) {
	assoc, err := handshake.Negotiate(ctx, r.Set.Smb, r.Set.Cfg.Providers, r.key)
	if err != nil {
		return nil, rdmaconn.HandshakeError(err)
	}
	r.setFenced(nil)
	return assoc, nil
}

// setFenced notes that nothing goes on at the server: of the connection cn alone, if
// that is not nil.
func (r *Path) setFenced(cn *rdmaconn.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cn != nil && cn != r.last {
		return
	}
	if !r.fenced && r.state != pathUp {
		r.fenced = true
		r.setLocked(r.state)
	}
	if r.hasUncertainWrites {
		r.hasUncertainWrites = false
		r.Set.pathsWithUncertainWrites.Add(-1)
	}
}

// unfenced reports whether the connection cn, which was lost, is the last there was, and
// may be going on at the server.
func (r *Path) unfenced(cn *rdmaconn.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last == cn && r.state > pathReplaying && !r.fenced
}

// Fence makes sure that no write of a broken connection goes on at the server, before anything is
// changed over SMB. If writes are unanswered, it sends a NEGOTIATE with the same client key: the
// server ends the connections of the pair and waits for their I/O.
//
// Source: [OP-112]
func (r *Path) Fence(ctx context.Context) error {
	for {
		r.notice()
		r.mu.Lock()
		cn, changed, needed := r.last, r.changed, r.state > pathReplaying && !r.fenced
		r.mu.Unlock()
		if !needed {
			return nil
		}
		select {
		case <-cn.Gone():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if cn.UnansweredWrites() == 0 {
			r.setFenced(cn)
			continue
		}
		if over, err := r.fenceInTurn(ctx, cn, changed); over || err != nil {
			return err
		}
	}
}

// fenceInTurn waits for the turn and sends a NEGOTIATE, unless cn is fenced or replaced by then. It reports
// false if the state of the path changed first.
func (r *Path) fenceInTurn(ctx context.Context, cn *rdmaconn.Conn, changed <-chan struct{}) (over bool, err error) {
	select {
	case r.turn <- struct{}{}:
	case <-changed:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	defer func() { <-r.turn }()
	if !r.unfenced(cn) {
		return true, nil // a NEGOTIATE now would end a connection made meanwhile
	}
	if _, err := r.negotiate(ctx); err != nil {
		return false, fmt.Errorf("the server may still be doing writes of the lost RDMA connection, and cannot be asked: %w", err)
	}
	return true, nil
}
