package paths

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/client/rdmaconn"
)

// pathState is the state of a path.
type pathState uint8

// The states of a path.
const (
	pathUp        pathState = iota // a connection for all calls
	pathReplaying                  // a connection for calls with unacknowledged writes only
	pathLost                       // no connection; another one may come
	pathOver                       // no connection, and none will come
)

// Path is an RDMA connection of a client, and the connections that replace it one after another. A
// goroutine makes the first connection, waits for its loss, and replaces it. The client key stays the
// same, so each NEGOTIATE ends the earlier connection of the path. NEGOTIATE is also the fence: after
// it SMB may change files that writes of the earlier connection could have changed.
//
// A call with unacknowledged writes replays them on the next connection, before other requests are
// sent there. It calls BeginReplay before it leaves the broken connection, and EndReplay when the
// writes are answered.
//
// Source: [OP-112]
type Path struct {
	Set   *Set
	Index int                           // among the client's
	key   [16]byte                      // the client's in NEGOTIATE
	cn    atomic.Pointer[rdmaconn.Conn] // for all; nil or down if there is none
	turn  chan struct{}                 // holds a token while a goroutine negotiates or connects

	// mu guards the following fields.
	mu                 sync.Mutex
	state              pathState
	last               *rdmaconn.Conn // the newest; nil if there never was one
	changed            chan struct{}  // closed when the state changes
	until              time.Time      // calls wait for the next connection
	fenced             bool           // nothing of the last connection goes on at the server
	replaying          int            // calls with unacknowledged writes
	hasUncertainWrites bool           // writes are uncertain and may still be going on
	why                error          // the reason for the last time without a connection
}

// newPath makes the path with this index, without a connection.
func (c *Set) newPath(index int) *Path {
	r := &Path{Set: c, Index: index, state: pathLost, fenced: true, turn: make(chan struct{}, 1), changed: make(chan struct{})}
	rand.Read(r.key[:]) // never fails
	return r
}

// begin makes the first connection. It is called before any other goroutine knows the path.
func (r *Path) begin(ctx context.Context) error {
	cn, err := r.connect(ctx)
	if r.why = err; err == nil {
		r.offer(cn)
	}
	return err
}

// waits returns the time until which calls wait for a connection.
func (r *Path) waits() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.until
}

// Current returns the connection for all, which may be down, or nil. Unlike Live it notices no loss.
func (r *Path) Current() *rdmaconn.Conn { return r.cn.Load() }

// Live returns the connection if there is one for all, else nil. It notices when the
// connection has ended.
func (r *Path) Live() *rdmaconn.Conn {
	cn := r.cn.Load()
	if cn == nil || !cn.IsDown() {
		return cn
	}
	r.lose(cn)
	return nil
}

// notice notes the loss of the newest connection if that is down.
func (r *Path) notice() {
	r.mu.Lock()
	cn := r.last
	r.mu.Unlock()
	if cn != nil && cn.IsDown() {
		r.lose(cn)
	}
}

// Now is Live, and with replays also the connection that is reserved for replays.
func (r *Path) Now(replays bool) *rdmaconn.Conn {
	if cn := r.Live(); cn != nil || !replays {
		return cn
	}
	r.mu.Lock()
	state, last := r.state, r.last
	r.mu.Unlock()
	switch {
	case state != pathReplaying:
		return nil
	case last.IsDown():
		r.lose(last)
		return nil
	}
	return last
}

// Get is Now that waits for the connection that replaces a lost one, as long as ctx and
// Config.ReconnectTimeout allow. It returns nil if there is none. Precondition: replays is set, or the
// caller has no request in flight on any path. If such a request is a write, and its connection is
// lost, it reserves the next connection, and the caller waits for itself.
//
// Errors: ctx's.
func (r *Path) Get(ctx context.Context, replays bool) (*rdmaconn.Conn, error) {
	var late <-chan time.Time
	for {
		if cn := r.Now(replays); cn != nil {
			return cn, nil
		}
		r.mu.Lock()
		state, changed, left := r.state, r.changed, time.Until(r.until)
		r.mu.Unlock()
		switch {
		case state == pathUp, state == pathReplaying && replays:
			continue
		case state == pathOver || left <= 0:
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

// Reason returns the reason why there is no connection, which is net.ErrClosed after a loss.
func (r *Path) Reason() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.why
}

// lose notes that a connection is down.
func (r *Path) lose(cn *rdmaconn.Conn) {
	if !r.down(cn) {
		return
	}
	r.Set.Cfg.Logger.Warn("lwio: RDMA connection lost", "server", r.Set.Target, "provider", cn.Fabric, "addr", cn.Remote.String(),
		"err", cn.Err(), "writes unanswered", cn.UnansweredWrites(), "then", r.afterLoss())
}

// afterLoss describes the next step after the loss of a connection, for the log.
func (r *Path) afterLoss() string {
	cfg := &r.Set.Cfg
	switch {
	case r.Set.Closed.Load():
		return "nothing: the client is being closed"
	case r.Set.Smb.Err() != nil:
		return "nothing: the SMB session has ended too"
	case cfg.ReconnectTimeout >= 0:
		return "trying to replace it"
	case len(r.Set.Paths) > 1:
		return "it is not to be replaced"
	case cfg.RequireRDMA:
		return "it is not to be replaced: reads and writes fail"
	}
	return "it is not to be replaced: going on over SMB"
}

// down changes the state after the loss of cn. It reports false if the loss is known already.
func (r *Path) down(cn *rdmaconn.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != cn || r.state == pathLost || r.state == pathOver {
		return false
	}
	r.Set.Lost.Add(1) // before any goroutine sees the state
	r.cn.Store(nil)
	r.why = cn.Err()
	r.fenced = false
	r.until = time.Now().Add(max(r.Set.Cfg.ReconnectTimeout, 0))
	r.setLocked(pathLost)
	return true
}

// offer makes cn the connection of the path. It reports false if the path has ended.
func (r *Path) offer(cn *rdmaconn.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == pathOver {
		return false
	}
	r.last = cn
	if r.replaying > 0 {
		r.setLocked(pathReplaying)
		return true
	}
	r.cn.Store(cn)
	r.setLocked(pathUp)
	return true
}

// BeginReplay reserves the next connection for calls that send writes again. Precondition: the caller
// holds up the teardown of the connection on which it sent the writes.
func (r *Path) BeginReplay() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replaying++
}

// EndReplay ends a BeginReplay. After the last one all calls may use the connection.
func (r *Path) EndReplay() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.replaying--; r.replaying == 0 && r.state == pathReplaying {
		r.cn.Store(r.last)
		r.setLocked(pathUp)
	}
}

// end ends the path: no further connection is made. It returns the last connection, or nil.
func (r *Path) end(why error) *rdmaconn.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != pathOver {
		r.why = why
		r.cn.Store(nil)
		r.setLocked(pathOver)
	}
	return r.last
}

// setLocked changes the state. Precondition: mu is held.
func (r *Path) setLocked(s pathState) {
	r.state = s
	close(r.changed)
	r.changed = make(chan struct{})
}

// transport describes the path.
func (r *Path) transport() base.Transport {
	r.Live()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == pathUp || r.state == pathReplaying {
		return r.last.Transport()
	}
	return base.Transport{Name: base.TransportSMB, Reason: r.why.Error()}
}

// PathOf is the path of a connection.
func PathOf(c *rdmaconn.Conn) *Path { return c.Owner.(*Path) }

// AllUp reports whether every path has a connection. The earlier connections are torn down
// then.
func (r *Path) AllUp() bool { return r.Set.AllUp() }

// Bounded gives ctx the default deadline if it has none.
func (r *Path) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return r.Set.Cfg.Bounded(ctx)
}
