package lwio

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"lwio/internal/handshake"
)

const (
	// minPause and maxPause bound the time between two attempts to replace a connection.
	// Each time it doubles, and up to half of it is left to chance. While calls wait it is
	// at most one of waitParts of Config.Reconnect.
	minPause  = 5 * time.Millisecond
	maxPause  = 10 * time.Second
	waitParts = 8
	// firstPause and maxFirstPause bound it for a connection that could not be made when
	// the client was: often it never can.
	firstPause    = time.Second
	maxFirstPause = time.Minute
	// provenAfter is for how long a connection must have lived that is replaced without a
	// pause.
	provenAfter = time.Second
	// attemptTimeout bounds one attempt.
	attemptTimeout = 2 * connectTimeout
)

// keep makes the first connection, if there is none yet, and replaces it whenever it
// breaks, until ctx ends, or the SMB session.
func (r *rail) keep(ctx context.Context) {
	defer r.c.keepers.Done()
	cn := r.last
	var pause backoff
	if cn == nil {
		pause.pause = firstPause
		cn = r.make(ctx, nil, &pause)
	}
	for cn != nil {
		select {
		case <-cn.down:
		case <-ctx.Done():
			return
		}
		r.lose(cn)
		if r.c.cfg.Reconnect < 0 {
			return
		}
		pause.lived(time.Since(cn.born), cn.seen.Load() > 0)
		cn = r.replace(ctx, cn, &pause)
	}
}

// replace makes a connection in place of cn. It returns nil if there will be none.
func (r *rail) replace(ctx context.Context, cn *conn, pause *backoff) *conn {
	select {
	case <-cn.gone: // with it all calls have left, and told what they owe
	case <-ctx.Done():
		return nil
	}
	return r.make(ctx, cn, pause)
}

// make makes a connection in place of cn, or the first one, with as many attempts as it
// takes. It returns nil if there will be none.
func (r *rail) make(ctx context.Context, cn *conn, pause *backoff) *conn {
	for try := 1; pause.sleep(ctx, r.longestPause()); try++ {
		next, err := r.attempt(ctx)
		if err == nil {
			return r.replaced(cn, next, try)
		}
		if e := r.c.sess.err(); e != nil {
			r.end(reasons{r.loss(), fmt.Errorf("the SMB session has ended too: %w", e)})
			lost := "lwio: SMB session lost"
			if cn != nil {
				lost += ", and the RDMA connection with it"
			}
			r.c.cfg.Logger.Warn(lost, "server", r.c.target.Host, "err", e)
			return nil
		}
		if ctx.Err() == nil {
			r.failed(err, try)
		}
	}
	return nil
}

// loss is reason without what came of attempts to replace the connection that was lost.
func (r *rail) loss() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != nil {
		return r.last.err
	}
	return r.why
}

// longestPause bounds the time until the next attempt.
func (r *rail) longestPause() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.last == nil:
		return maxFirstPause
	case time.Now().After(r.until):
		return maxPause
	}
	return min(max(r.c.cfg.Reconnect/waitParts, minPause), maxPause)
}

// attempt tries once.
func (r *rail) attempt(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, min(attemptTimeout, r.c.cfg.Timeout))
	defer cancel()
	return r.connect(ctx)
}

// replaced hands out the connection that takes the place of cn, or is the first.
func (r *rail) replaced(cn, next *conn, tries int) *conn {
	count := &r.c.reconnects
	if cn == nil {
		count = &r.c.belated
	}
	count.Add(1) // before a call can see it
	if !r.offer(next) {
		next.close()
		return nil
	}
	if cn == nil {
		r.c.cfg.Logger.Info("lwio: RDMA after all", "server", r.c.target.Host, "provider", next.fabric, "addr", next.remote.String(), "attempts", tries)
		return next
	}
	r.c.cfg.Logger.Info("lwio: RDMA connection replaced", "server", r.c.target.Host, "provider", next.fabric, "addr", next.remote.String(),
		"attempts", tries, "outcomes of writes known", next.lineage == cn.lineage)
	return next
}

// failed notes why an attempt failed. The log gets the first failure, and each after
// which calls do not wait any more; where there never was a connection, each that is
// another one than before.
func (r *rail) failed(err error, try int) {
	r.mu.Lock()
	if r.last == nil {
		news := r.why.Error() != err.Error()
		if r.state == railLost {
			r.why = err
		}
		r.mu.Unlock()
		if news {
			r.c.cfg.Logger.Info("lwio: still no RDMA", "server", r.c.target.Host, "attempt", try, "reason", err)
		}
		return
	}
	if r.state == railLost {
		r.why = reasons{r.last.err, fmt.Errorf("attempt %d to replace it: %w", try, err)}
	}
	away := time.Now().After(r.until)
	r.mu.Unlock()
	if try == 1 || away {
		r.c.cfg.Logger.Warn("lwio: the RDMA connection is not replaced yet", "server", r.c.target.Host, "attempt", try, "calls wait", !away, "err", err)
	}
}

// connect negotiates, which ends what there was of the rail at the server, and connects
// in the place of the last connection.
func (r *rail) connect(ctx context.Context) (*conn, error) {
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
	return r.c.connect(ctx, r, assoc)
}

// negotiate asks the server with the rail's key. The caller has the turn.
func (r *rail) negotiate(ctx context.Context) (*handshake.Association, error) {
	assoc, err := handshake.Negotiate(ctx, r.c.sess, r.c.cfg.Providers, r.key)
	if err != nil {
		return nil, handshakeError(err)
	}
	r.setFenced(nil)
	return assoc, nil
}

// setFenced notes that nothing goes on at the server: of the connection cn alone, if
// that is not nil.
func (r *rail) setFenced(cn *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cn != nil && cn != r.last {
		return
	}
	if !r.fenced && r.state != railUp {
		r.fenced = true
		r.setLocked(r.state)
	}
	if r.orphans {
		r.orphans = false
		r.c.orphans.Add(-1)
	}
}

// unfenced reports whether the connection cn, which was lost, is the last there was, and
// may be going on at the server.
func (r *rail) unfenced(cn *conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last == cn && r.state > railOwed && !r.fenced
}

// fence makes the server forget writes that a broken connection may still carry, before
// anything is changed over SMB: a NEGOTIATE with the same client key tears down the
// connections of the pair and waits for their I/O.
//
// Source: [OP-112]
func (r *rail) fence(ctx context.Context) error {
	for {
		r.notice()
		r.mu.Lock()
		cn, changed, needed := r.last, r.changed, r.state > railOwed && !r.fenced
		r.mu.Unlock()
		if !needed {
			return nil
		}
		select {
		case <-cn.gone:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if cn.unanswered.Load() == 0 {
			r.setFenced(cn)
			continue
		}
		select {
		case r.turn <- struct{}{}:
			var err error
			if r.unfenced(cn) { // and not cut off what has been made meanwhile
				_, err = r.negotiate(ctx)
			}
			<-r.turn
			if err != nil {
				return fmt.Errorf("the server may still be doing writes of the lost RDMA connection, and cannot be asked: %w", err)
			}
			return nil
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// backoff is how long to wait before the next attempt.
type backoff struct{ pause time.Duration }

// lived says for how long the last connection was there, and whether it was of use.
func (b *backoff) lived(d time.Duration, used bool) {
	switch {
	case d >= provenAfter:
		b.pause = 0
	case used:
		b.pause = min(b.pause, minPause)
	}
}

// next is the longest pause before the next attempt, if it must not be longer than most.
func (b *backoff) next(most time.Duration) time.Duration {
	d := min(b.pause, most)
	b.pause = max(2*d, minPause)
	return d
}

// sleep waits, and reports false if ctx has ended.
func (b *backoff) sleep(ctx context.Context, most time.Duration) bool {
	if d := b.next(most); d > 0 {
		t := time.NewTimer(d/2 + rand.N(d/2+1))
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}
