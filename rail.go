package lwio

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"
)

// railState is what there is of a rail.
type railState uint8

const (
	railUp   railState = iota // a connection for all
	railOwed                  // a connection for those alone that owe writes to the one before
	railLost                  // none; another one may come
	railOver                  // none, and none will come
)

// rail is an RDMA connection of a client and, one after another, those that take its
// place when it breaks. A goroutine waits for the loss of each and replaces it; where
// there was none when the client was made, it goes on trying for the first. The client
// key stays the same, so that each NEGOTIATE ends what was there before; that is the
// fence, too, after which SMB may change what RDMA could have been changing.
//
// A call whose writes were not answered owes them: it counts itself in before it leaves
// the connection that broke, sends them again on the next one, before anything else is
// sent there, and counts itself out.
//
// Source: [OP-112]
type rail struct {
	c     *Client
	index int                  // among the client's
	key   [16]byte             // the client's in NEGOTIATE
	cn    atomic.Pointer[conn] // for all; nil or down if there is none
	turn  chan struct{}        // holds a token while somebody negotiates or connects

	// mu guards what follows.
	mu      sync.Mutex
	state   railState
	last    *conn         // the newest; nil if there never was one
	changed chan struct{} // closed when the state changes
	until   time.Time     // calls wait for the next connection
	fenced  bool          // nothing of the last connection goes on at the server
	debts   int           // calls that owe writes
	orphans bool          // writes are uncertain and may still be going on
	why     error         // there is no connection, or was none the last time
}

// newRail makes the rail with that number, without a connection.
func (c *Client) newRail(index int) *rail {
	r := &rail{c: c, index: index, state: railLost, fenced: true, turn: make(chan struct{}, 1), changed: make(chan struct{})}
	rand.Read(r.key[:]) // never fails
	return r
}

// begin makes the first connection. It is called before anybody else knows the rail.
func (r *rail) begin(ctx context.Context) error {
	cn, err := r.connect(ctx)
	if r.why = err; err == nil {
		r.offer(cn)
	}
	return err
}

// waits is until when calls wait for a connection.
func (r *rail) waits() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.until
}

// live returns the connection if there is one for all, else nil. It notices when the
// connection has ended.
func (r *rail) live() *conn {
	cn := r.cn.Load()
	if cn == nil || !cn.isDown() {
		return cn
	}
	r.lose(cn)
	return nil
}

// notice notes the loss of the newest connection if that is down, whoever it is for.
func (r *rail) notice() {
	r.mu.Lock()
	cn := r.last
	r.mu.Unlock()
	if cn != nil && cn.isDown() {
		r.lose(cn)
	}
}

// get is live that waits for a connection to take the place of one that was lost, as
// long as ctx and Config.Reconnect allow. Those who owe writes get it before others. It
// returns nil if there is none.
//
// Errors: ctx's.
func (r *rail) get(ctx context.Context, owes bool) (*conn, error) {
	var late <-chan time.Time
	for {
		if cn := r.live(); cn != nil {
			return cn, nil
		}
		r.mu.Lock()
		state, last, changed, left := r.state, r.last, r.changed, time.Until(r.until)
		r.mu.Unlock()
		switch {
		case state == railUp:
			continue
		case state == railOwed && owes:
			if !last.isDown() {
				return last, nil
			}
			r.lose(last)
			continue
		case state == railOver || left <= 0:
			return nil, nil
		}
		if late == nil {
			t := time.NewTimer(left)
			defer t.Stop()
			late = t.C
		}
		select {
		case <-changed:
		case <-late:
			late = nil // unless the connection has come and gone, until is over
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// reason says why there is no connection: net.ErrClosed where it was lost.
func (r *rail) reason() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.why
}

// lose notes that a connection is down.
func (r *rail) lose(cn *conn) {
	if !r.down(cn) {
		return
	}
	r.c.cfg.Logger.Warn("lwio: RDMA connection lost", "server", r.c.target.Host, "provider", cn.fabric, "addr", cn.remote.String(),
		"err", cn.err, "writes unanswered", cn.unanswered.Load(), "then", r.afterLoss())
}

// afterLoss says what comes after the loss of a connection, as far as that is known.
func (r *rail) afterLoss() string {
	cfg := &r.c.cfg
	switch {
	case r.c.closed.Load():
		return "nothing: the client is being closed"
	case r.c.sess.err() != nil:
		return "nothing: the SMB session has ended too"
	case cfg.Reconnect >= 0:
		return "trying to replace it"
	case len(r.c.rails) > 1:
		return "it is not to be replaced"
	case cfg.RequireRDMA:
		return "it is not to be replaced: reads and writes fail"
	}
	return "it is not to be replaced: going on over SMB"
}

// down is lose for the state alone. False says that it is known.
func (r *rail) down(cn *conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != cn || r.state == railLost || r.state == railOver {
		return false
	}
	r.c.lost.Add(1) // before anybody sees the state
	r.cn.Store(nil)
	r.why = cn.err
	r.fenced = false
	r.until = time.Now().Add(max(r.c.cfg.Reconnect, 0))
	r.setLocked(railLost)
	return true
}

// offer makes cn the connection. False says that the rail is over.
func (r *rail) offer(cn *conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == railOver {
		return false
	}
	r.last = cn
	if r.debts > 0 {
		r.setLocked(railOwed)
		return true
	}
	r.cn.Store(cn)
	r.setLocked(railUp)
	return true
}

// owe counts in a call that has writes to send again. It still holds up the teardown of
// the connection that they were sent on.
func (r *rail) owe() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.debts++
}

// settled counts it out. After the last one the connection is for all.
func (r *rail) settled() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.debts--; r.debts == 0 && r.state == railOwed {
		r.cn.Store(r.last)
		r.setLocked(railUp)
	}
}

// end says that no connection comes any more, and returns the last one, or nil.
func (r *rail) end(why error) *conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != railOver {
		r.why = why
		r.cn.Store(nil)
		r.setLocked(railOver)
	}
	return r.last
}

// setLocked changes the state. The caller holds mu.
func (r *rail) setLocked(s railState) {
	r.state = s
	close(r.changed)
	r.changed = make(chan struct{})
}

// transport says what the rail is.
func (r *rail) transport() Transport {
	r.live()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == railUp || r.state == railOwed {
		return r.last.transport()
	}
	return Transport{Name: TransportSMB, Reason: r.why.Error()}
}

// transport describes the connection.
func (c *conn) transport() Transport {
	reason := "authenticated with the key of the SMB session"
	if !c.peer.keyed {
		reason = "authenticated without a key: the server signs with MD5 alone"
	}
	return Transport{Name: c.fabric, Addr: c.remote.String(), Keyed: c.peer.keyed, Reason: reason, Skipped: c.skipped}
}
