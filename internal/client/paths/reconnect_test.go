package paths

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/client/handshake"
	"lwio/internal/client/rdmaconn"
)

// sessionEnd is an SMB session that has ended with an error, or lives if that is nil.
type sessionEnd struct {
	sessionLife
	err error
}

func (s *sessionEnd) Err() error { return s.err }

// The log entry of a lost connection names the known consequence.
func TestAfterLossNamesTheNextStep(t *testing.T) {
	for _, c := range []struct {
		reconnect     time.Duration
		conns         int
		require       bool
		closed, ended bool
		want          string
	}{
		{base.DefaultReconnectTimeout, 1, false, false, false, "trying to replace it"},
		{base.DefaultReconnectTimeout, 1, true, false, false, "trying to replace it"},
		{base.DefaultReconnectTimeout, 1, false, false, true, "nothing: the SMB session has ended too"},
		{base.DefaultReconnectTimeout, 1, false, true, true, "nothing: the client is being closed"},
		{-1, 1, false, true, false, "nothing: the client is being closed"},
		{-1, 1, false, false, false, "it is not to be replaced: going on over SMB"},
		{-1, 1, true, false, false, "it is not to be replaced: reads and writes fail"},
		{-1, 2, false, false, false, "it is not to be replaced"},
		{-1, 2, false, false, true, "nothing: the SMB session has ended too"},
	} {
		sess := new(sessionEnd)
		client := new(Set)
		client.Smb, client.Paths, client.Cfg = sess, make([]*Path, c.conns), base.Config{ReconnectTimeout: c.reconnect, RequireRDMA: c.require}
		client.Closed.Store(c.closed)
		if c.ended {
			sess.err = net.ErrClosed
		}
		if got := client.newPath(0).afterLoss(); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// The fence of one connection counts for that connection, not for the next.
//
// Source: [OP-112]
func TestFencedIsOfOneConnection(t *testing.T) {
	earlier, last := new(rdmaconn.Conn), new(rdmaconn.Conn)
	r := &Path{Set: new(Set), last: last, state: pathLost, changed: make(chan struct{})}
	if r.setFenced(earlier); r.fenced {
		t.Error("an earlier connection counts")
	}
	if r.setFenced(last); !r.fenced {
		t.Error("the last one does not count")
	}
}

// noPipe is an SMB session without pipes. It counts the attempts to open one.
type noPipe struct {
	sessionEnd
	opened atomic.Int32
}

func (s *noPipe) ApplicationKey() ([]byte, bool) { return nil, false }

func (s *noPipe) OpenPipe(context.Context, string) (handshake.Pipe, error) {
	s.opened.Add(1)
	return nil, net.ErrClosed
}

// A fence that waits for its turn sends no NEGOTIATE if the connection is fenced or replaced when the turn
// comes.
//
// Source: [OP-112]
func TestFenceSendsNoNegotiateForFencedConnection(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile    func(r *Path)
		negotiations int32
	}{
		"nothing":  {func(*Path) {}, 1},
		"fenced":   {func(r *Path) { r.fenced = true }, 0},
		"replaced": {func(r *Path) { r.last = new(rdmaconn.Conn) }, 0},
		"up":       {func(r *Path) { r.state = pathUp }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			sess, lost := new(noPipe), new(rdmaconn.Conn)
			r := (&Set{Smb: sess}).newPath(0)
			r.last, r.fenced = lost, false
			r.turn <- struct{}{} // of the goroutine that connects
			done := make(chan error)
			go func() {
				_, err := r.fenceInTurn(t.Context(), lost, nil)
				done <- err
			}()
			r.mu.Lock()
			c.meanwhile(r)
			r.mu.Unlock()
			<-r.turn
			if err := <-done; (err != nil) != (c.negotiations > 0) {
				t.Error(err)
			}
			if n := sess.opened.Load(); n != c.negotiations {
				t.Errorf("%d negotiations, not %d", n, c.negotiations)
			}
		})
	}
}

// The rotation of a list wraps around.
func TestRotatedStartsAtIndex(t *testing.T) {
	list := []int{1, 2, 3}
	for n, want := range map[int][]int{0: {1, 2, 3}, 1: {2, 3, 1}, 5: {3, 1, 2}} {
		if got := rotated(list, n); !slices.Equal(got, want) {
			t.Errorf("%d: %v", n, got)
		}
	}
	if len(rotated([]int(nil), 7)) != 0 {
		t.Error("an empty list has elements")
	}
}

// While no path has a connection, calls wait at the path that waits longest for its next one.
func TestLeastBusyWaitsAtThePathThatWaitsLongest(t *testing.T) {
	c := new(Set)
	for i := range 3 {
		r := c.newPath(i)
		r.why = errors.New("no")
		c.Paths = append(c.Paths, r)
	}
	c.Paths[1].until = time.Now().Add(time.Minute)
	c.Paths[2].until = time.Now().Add(-time.Minute)
	for range 6 {
		if r := c.LeastBusy(0); r != c.Paths[1] {
			t.Fatalf("path %d", r.Index)
		}
	}
	if n := c.Stripe(1 << 30); n != 0 {
		t.Errorf("a read is cut up for %d connections", n)
	}
	if err := c.Fence(t.Context()); err != nil {
		t.Error(err)
	}
}
