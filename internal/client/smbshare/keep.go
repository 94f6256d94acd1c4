package smbshare

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"lwio/internal/client/base"
)

const (
	// waitParts bounds the time between two attempts to replace a link while calls wait: it is at most
	// one of so many parts of Config.ReconnectTimeout, and maxCallPause.
	waitParts    = 32
	maxCallPause = 100 * time.Millisecond
	// attemptTimeout bounds one attempt. The server may take 5 s to end the earlier session.
	attemptTimeout = 10 * time.Second
	// reclaims is the number of opens that are reclaimed at a time.
	reclaims = 16
)

// keep replaces each lost link until the session ends for good.
func (s *session) keep() {
	var pause base.Backoff
	for {
		l, born := s.newest(), time.Now()
		select {
		case <-l.s.Done():
		case <-s.ctx.Done():
			return
		}
		over := s.lose(l)
		closeWithoutLogoff(l.s)
		if over != nil {
			return
		}
		pause.Lived(time.Since(born), true)
		if !s.replace(&pause) {
			return
		}
	}
}

// lose notes the loss of a link. It returns why there will be no other, or nil.
func (s *session) lose(l *link) error {
	s.mu.Lock()
	if s.link != l || !s.up {
		defer s.mu.Unlock()
		return s.over
	}
	s.up, s.why = false, l.s.Err()
	s.until = time.Now().Add(max(s.cfg.ReconnectTimeout, 0))
	then := "trying to replace it"
	switch {
	case s.over != nil:
		then = ""
	case s.cfg.ReconnectTimeout < 0:
		s.over, then = s.why, "it is not to be replaced"
	case !l.tree.Persistent():
		s.over, then = s.why, "nothing: the server keeps no opens without a connection"
	}
	over, why := s.over, s.why
	s.signalLocked()
	s.mu.Unlock()
	if then != "" {
		s.cfg.Logger.Warn("lwio: SMB session lost", "server", s.where, "err", why, "then", then)
	}
	return over
}

// replace makes the next link, with as many attempts as it takes. It reports false if the session has
// ended for good.
func (s *session) replace(pause *base.Backoff) bool {
	var refused refusals
	for try := 1; pause.Sleep(s.ctx, s.longestPause()); try++ {
		l, err := s.attempt(s.ctx)
		now := time.Now()
		refused.note(err, now)
		switch {
		case err == nil:
			return s.publish(l, try)
		case s.ctx.Err() != nil:
			return false
		case refused.final(now, s.cfg.ReconnectTimeout):
			s.cfg.Logger.Warn("lwio: SMB session not replaced", "server", s.where, "err", err)
			s.end(fmt.Errorf("%w; the server refuses another session: %w", s.loss(), err))
			return false
		}
		s.failed(err, try)
		if refused.any() {
			longest := refusalPause(s.cfg.ReconnectTimeout)
			wait := base.NewBackoff(longest)
			wait.Sleep(s.ctx, longest)
		}
	}
	return false
}

// longestPause bounds the time until the next attempt.
func (s *session) longestPause() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().After(s.until) {
		return base.MaxPause
	}
	return min(max(s.cfg.ReconnectTimeout/waitParts, base.MinPause), maxCallPause)
}

// attempt tries once to make a link.
func (s *session) attempt(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, min(attemptTimeout, s.cfg.Timeout))
	defer cancel()
	raw, err := s.maker.dial(ctx)
	if err != nil {
		return nil, err
	}
	return s.maker.connect(ctx, raw)
}

// loss returns the reason of the last loss.
func (s *session) loss() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link.s.Err()
}

// failed notes why an attempt failed. The log gets the first failure, and each after which calls do not
// wait any more.
func (s *session) failed(err error, try int) {
	s.mu.Lock()
	s.why = fmt.Errorf("%w; attempt %d to replace it: %w", s.link.s.Err(), try, err)
	away := time.Now().After(s.until)
	s.mu.Unlock()
	if try == 1 || away {
		s.cfg.Logger.Warn("lwio: the SMB session is not replaced yet", "server", s.where, "attempt", try, "calls wait", !away, "err", err)
	}
}

// publish hands l out, and reclaims the opens. It reports false if the session has ended meanwhile.
func (s *session) publish(l *link, tries int) bool {
	s.mu.Lock()
	if s.over != nil {
		s.mu.Unlock()
		closeWithoutLogoff(l.s)
		return false
	}
	s.reconnects.Add(1)
	s.link, s.up, s.why = l, true, nil
	list := slices.Collect(maps.Keys(s.handles))
	s.signalLocked()
	s.goroutines.Go(func() { reclaimAll(list, l) })
	s.mu.Unlock()
	s.cfg.Logger.Info("lwio: SMB session replaced", "server", s.where, "attempts", tries, "open files", len(list))
	return true
}

// reclaimAll reclaims opens, several at a time, and closes those that the program has closed. A call
// that needs one of them earlier does not wait for the others.
func reclaimAll(list []*handle, l *link) {
	next := make(chan *handle)
	var wg sync.WaitGroup
	for range min(reclaims, len(list)) {
		wg.Go(func() {
			for h := range next {
				h.restore(l)
			}
		})
	}
	for _, h := range list {
		next <- h
	}
	close(next)
	wg.Wait()
}
