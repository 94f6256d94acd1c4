package smbclient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/smb/smbwire"
)

// Times of a renewal.
const (
	// maxLead bounds the time before the end of an authentication at which it is renewed. The clocks
	// of Kerberos may differ by as much. A shorter authentication is renewed in its last quarter.
	maxLead = 5 * time.Minute
	// minRetry and maxRetry bound the time from a renewal without effect to the next one.
	minRetry = 5 * time.Second
	maxRetry = time.Minute
)

// renewal connects the requests that the server has refused as expired with the goroutine that
// authenticates again. It is safe for concurrent use.
type renewal struct {
	ctx    context.Context // ends with the connection
	cancel context.CancelFunc

	epoch atomic.Uint32 // counts completed renewals
	wake  chan struct{} // buffers one value: asked is set

	mu    sync.Mutex
	asked chan struct{} // closed after the renewal that requests wait for; nil if none waits
}

// newRenewal returns the renewal of a connection that has not ended.
func newRenewal() *renewal {
	r := &renewal{wake: make(chan struct{}, 1)}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// ask makes the goroutine authenticate again, unless it has done so since epoch. The result is closed
// after the attempt; nil if no attempt is necessary.
func (r *renewal) ask(epoch uint32) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.epoch.Load() != epoch {
		return nil
	}
	if r.asked == nil {
		r.asked = make(chan struct{})
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
	return r.asked
}

// wanted reports whether a request waits for a renewal.
func (r *renewal) wanted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked != nil
}

// done ends an attempt.
func (r *renewal) done(renewed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if renewed {
		r.epoch.Add(1)
	}
	if r.asked != nil {
		close(r.asked)
		r.asked = nil
	}
}

// renewed waits for a renewal if err is the refusal of p because the authentication of the session has
// ended. It reports true if the request may be sent again. Otherwise it returns err, or why the
// session is not renewed.
//
// Source: [MS-SMB2 3.2.5.1.6]
func (c *conn) renewed(ctx context.Context, p *pending, err error) (bool, error) {
	if err != ntstatus.NetworkSessionExpired || c.leaving.Load() { //nolint:errorlint // the status itself
		return false, err
	}
	done := c.renewal.ask(p.epoch)
	if done == nil {
		return true, nil
	}
	select {
	case <-done:
	case <-ctx.Done():
		return false, ctx.Err()
	case <-c.end.down:
	}
	if err := c.end.cause(); err != nil {
		return false, err
	}
	return true, nil
}

// renewing runs send, which returns the request that it waited for first, and runs it again after the
// renewal if the server has refused that request because the authentication of the session has ended.
func (c *conn) renewing(ctx context.Context, send func() (*pending, error)) error {
	p, err := send()
	again, err := c.renewed(ctx, p, err)
	if again {
		_, err = send()
	}
	return err
}

// keepAuthenticated authenticates the session again before the end of the authentication, zero for
// none, and when a request has been refused because of it. It returns at the end of the connection.
// A renewal without effect is repeated, also after the end, because RDMA connections live as long as
// the session. If a request waits for a renewal that fails, the connection ends.
//
// Source: [MS-SMB2 3.2.5.1.6], [MS-SMB2 3.2.4.2.3]
func (c *conn) keepAuthenticated(expires time.Time, renew func(context.Context) (time.Time, error)) {
	at := nextRenewal(expires, true)
	for {
		var due <-chan time.Time
		if !at.IsZero() {
			due = time.After(time.Until(at))
		}
		select {
		case <-c.end.down:
			return
		case <-c.renewal.wake:
			if !c.renewal.wanted() {
				continue
			}
		case <-due:
		}
		ctx, cancel := context.WithTimeout(c.renewal.ctx, c.timeout)
		end, err := renew(ctx)
		cancel()
		later := err == nil && (end.IsZero() || end.After(expires))
		if err == nil {
			expires = end
		} else if c.end.cause() == nil {
			c.log.Warn("smb: the session is not renewed", "until", expires, "error", err)
			if c.renewal.wanted() {
				c.fail(fmt.Errorf("the authentication has ended: %w", err))
			}
		}
		at = nextRenewal(expires, later)
		c.renewal.done(err == nil)
	}
}

// nextRenewal returns the time of the next renewal of an authentication that ends at expires, zero
// for none. later reports whether the last one has moved the end.
func nextRenewal(expires time.Time, later bool) time.Time {
	now := time.Now()
	left := expires.Sub(now)
	switch {
	case expires.IsZero():
		return time.Time{}
	case later && left > 0:
		return now.Add(left - min(left/4, maxLead))
	}
	return now.Add(min(max(left/2, minRetry), maxRetry))
}

// renew authenticates the session again and returns the end of the authentication. The keys stay. The
// connection ends if the server refuses: it has ended the session.
//
// Source: [MS-SMB2 3.2.4.2.3], [MS-SMB2 3.2.5.3]
func (c *conn) renew(ctx context.Context, host string, cfg *Config, n *negotiation) (time.Time, error) {
	i, err := cfg.initiator(ctx, host)
	if err != nil {
		return time.Time{}, err
	}
	r, err := c.authenticate(ctx, i, n, 0, func([]byte) {})
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, errTimeout) {
			c.fail(fmt.Errorf("renewal of the session: %w", err))
		}
		return time.Time{}, err
	}
	defer c.free(r.response)
	if r.flags&smbwire.SessionEncryptData != 0 {
		c.require()
	}
	return i.Expires(), nil
}
