package paths_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/client/paths"
	"lwio/internal/client/rdmaconn"
	"lwio/internal/client/smbshare"
	"lwio/lwiotest"
	"lwio/rdma"
	"lwio/rdma/iwarp"
)

// begin makes the paths of a client of the server; the end of the test ends them.
func begin(t *testing.T, s *lwiotest.Server, cfg base.Config) (*paths.Set, error) {
	t.Helper()
	to, err := base.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	c := &paths.Set{Target: to.Host}
	if c.Cfg = cfg.WithDefaults(); c.Cfg.Providers == nil {
		c.Cfg.Providers = []rdma.Provider{iwarp.New(nil)}
	}
	if err := c.Cfg.Apply(to); err != nil {
		t.Fatal(err)
	}
	raw, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	sess, err := smbshare.NewSession(t.Context(), raw, to, &c.Cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sess.Close(context.Background()) })
	c.Smb = sess
	err = c.Begin(t.Context())
	t.Cleanup(func() {
		c.Closed.Store(true)
		c.End()
	})
	return c, err
}

// mustBegin is begin that succeeds.
func mustBegin(t *testing.T, s *lwiotest.Server, cfg base.Config) *paths.Set {
	t.Helper()
	c, err := begin(t, s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The least busy path is any idle one in turn, never a full one, and none if all are full.
func TestLeastBusyTakesTurnsAmongIdlePaths(t *testing.T) {
	c := mustBegin(t, lwiotest.NewServer(t, nil), base.Config{Connections: 3})
	times := make(map[*paths.Path]int)
	for range 30 {
		times[c.LeastBusy(0)]++
	}
	for _, r := range c.Paths {
		if times[r] != 10 {
			t.Errorf("path %d was chosen %d of 30 times", r.Index, times[r])
		}
	}
	var full paths.PathBits
	for i, r := range c.Paths {
		full.Add(r)
		for range 4 {
			if got := c.LeastBusy(full); i < 2 && (got == nil || full.Has(got)) || i == 2 && got != nil {
				t.Errorf("%v is chosen while %d of 3 are full", got, i+1)
			}
		}
	}
}

// An operation is spread in whole pages, in several parts for each connection that is up.
func TestStripeFollowsSizeAndConnections(t *testing.T) {
	s := lwiotest.NewServer(t, nil)
	for connections, sizes := range map[int]map[int]int{
		1: {1 << 30: 0},
		2: {paths.MinStripe: 0, paths.MinStripe + 1: paths.MinStripe, 8 << 20: 1 << 20, 8<<20 + 1: 1 << 20, 10_000_000: 1253376, 1 << 30: 4 << 20},
		4: {8 << 20: 512 << 10, 1 << 20: paths.MinStripe},
	} {
		c := mustBegin(t, s, base.Config{Connections: connections})
		for n, want := range sizes {
			if got := c.Stripe(n); got != want {
				t.Errorf("%d bytes over %d connections: parts of %d, not %d", n, connections, got, want)
			}
		}
	}
}

// wait is how long the calls of the tests wait for a connection.
const wait = time.Minute

// cut ends the connection of a path and returns when it is torn down.
func cut(t *testing.T, r *paths.Path) *rdmaconn.Conn {
	t.Helper()
	cn := r.Live()
	if cn == nil {
		t.Fatal("there is no connection")
	}
	cn.Fail(errors.New("cut by the test"))
	return cn
}

// A call waits for the connection that replaces a lost one, and the transport says so.
//
// Source: [OP-112]
func TestGetWaitsForTheNextConnection(t *testing.T) {
	c := mustBegin(t, lwiotest.NewServer(t, nil), base.Config{ReconnectTimeout: wait})
	r := c.Paths[0]
	for n := uint64(1); n <= 3; n++ {
		lost := cut(t, r)
		next, err := r.Get(t.Context(), false)
		if err != nil || next == nil || next == lost {
			t.Fatalf("%p after %p, %v", next, lost, err)
		}
		if c.Lost.Load() != n || c.Reconnects.Load() != n || c.Connections.Load() != n+1 {
			t.Errorf("%d lost, %d replaced, %d made", c.Lost.Load(), c.Reconnects.Load(), c.Connections.Load())
		}
		if tr := c.Transport(); !tr.RDMA() || !strings.Contains(tr.Reason, "took the place of a lost connection") {
			t.Errorf("%+v", tr)
		}
		if err := c.Fence(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A call does not wait for a connection that will not come.
func TestGetDoesNotWaitInVain(t *testing.T) {
	c := mustBegin(t, lwiotest.NewServer(t, nil), base.Config{ReconnectTimeout: -1})
	r := c.Paths[0]
	cut(t, r)
	if cn, err := r.Get(t.Context(), false); cn != nil || err != nil {
		t.Errorf("%p, %v", cn, err)
	}
	if err := r.Reason(); err == nil || !strings.Contains(err.Error(), "cut by the test") {
		t.Error(err)
	}
	if tr := c.Transport(); tr.RDMA() {
		t.Errorf("%+v", tr)
	}
}

// While a call replays writes, the next connection is for calls with writes to replay alone.
//
// Source: [OP-112]
func TestReplaysHaveTheNextConnectionFirst(t *testing.T) {
	c := mustBegin(t, lwiotest.NewServer(t, nil), base.Config{ReconnectTimeout: wait})
	r := c.Paths[0]
	r.BeginReplay()
	lost := cut(t, r)
	next, err := r.Get(t.Context(), true)
	if err != nil || next == nil || next == lost {
		t.Fatal(next, err)
	}
	if r.Live() != nil {
		t.Error("calls without replays have the connection too")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if cn, err := r.Get(ctx, false); cn != nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call without replays does not wait: %p, %v", cn, err)
	}
	r.EndReplay()
	if cn, err := r.Get(t.Context(), false); cn != next || err != nil {
		t.Errorf("%p instead of %p, %v", cn, next, err)
	}
}

// An uncertain write on a lost connection needs a fence before other connections are used.
//
// Source: [OP-112]
func TestUncertainWriteNeedsFence(t *testing.T) {
	c := mustBegin(t, lwiotest.NewServer(t, nil), base.Config{Connections: 2, ReconnectTimeout: -1})
	if c.MustFence() {
		t.Error("a fence without an uncertain write")
	}
	cut(t, c.Paths[1])
	c.Paths[1].NoteUncertainWrite()
	if !c.MustFence() {
		t.Error("no fence after an uncertain write")
	}
	if err := c.FenceUncertainWrites(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.MustFence() {
		t.Error("the fence had no effect")
	}
	if c.Paths[0].Live() == nil || c.AllUp() {
		t.Error("the fence of one path ended another")
	}
}
