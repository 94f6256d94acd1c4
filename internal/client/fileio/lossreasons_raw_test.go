package fileio

import (
	"context"
	"errors"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/client/rdmaconn"
	"lwio/internal/wire"
)

var (
	errCut  = errors.New("the cable was cut")
	errGone = errors.New("the server went away")
)

// lossCase is how it goes on after the loss of a connection.
type lossCase struct {
	what      string
	reconnect time.Duration
	require   bool
	first     func(s *rawServer, cn *rdmaconn.Conn, leave func()) // before the loss, or nil
	read      string                                              // error of a read, or "" if it goes on
	write     string                                              // error of a write, which may have been done
	is        []error
}

// The error of a call on a lost connection has plain words first, and each cause once. errors.Is
// finds every cause.
func TestReasonsOfALoss(t *testing.T) { onEach(t, testReasonsOfALoss) }

func testReasonsOfALoss(t *testing.T, on string) {
	const attempt = "(; attempt [0-9]+ to replace it: no RDMA provider in common with the server: the server does not offer it)?"
	lost := "connection lost: " + on + ": the cable was cut"
	cut, none := []error{errCut, net.ErrClosed}, []error{errCut, net.ErrClosed, base.ErrNoRDMA}
	for _, c := range []lossCase{
		{what: "to go on over SMB", reconnect: -1, write: lost, is: cut},
		{what: "with no other allowed", reconnect: -1, require: true, read: "(no RDMA: )?" + lost, write: "no RDMA: " + lost, is: cut},
		{
			what: "with no other in time", reconnect: time.Millisecond, require: true,
			first: func(s *rawServer, _ *rdmaconn.Conn, _ func()) { s.away(true) },
			read:  "no RDMA: " + lost + attempt, write: "no RDMA: " + lost + attempt, is: none,
		},
		{
			what: "with the session", reconnect: time.Minute, require: true,
			first: func(s *rawServer, _ *rdmaconn.Conn, _ func()) { s.sess.lose(errGone) },
			read:  "no RDMA: " + lost + "; the SMB session has ended too: the server went away",
			write: "no RDMA: " + lost + "; the SMB session has ended too: the server went away", is: append(none, errGone),
		},
		{
			what: "and the caller leaves", reconnect: time.Minute, require: true,
			first: func(s *rawServer, cn *rdmaconn.Conn, leave func()) {
				s.away(true)
				go func() { <-cn.Gone(); leave() }() // the call waits for another by then
			},
			read: "context canceled", write: lost + "; context canceled", is: []error{context.Canceled},
		},
	} {
		for name, do := range closedWaiting {
			if strings.HasPrefix(name, "batch") && c.what == "and the caller leaves" {
				continue // the operation stays in the batch
			}
			c.check(t, on, name, do)
		}
	}
}

// check does a call whose connection is lost.
func (c *lossCase) check(t *testing.T, on, name string, do func(ctx context.Context, f *File, p []byte) error) {
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	share := newFakeShare()
	share.put("f", pattern(10_000))
	s := newRawServer(t, on, share)
	var client *Client
	s.handle = func(_ *rawConn, h wire.Header, _ []byte) bool {
		if h.Opcode.IO() {
			cn := client.Live()
			if c.first != nil {
				c.first(s, cn, leave)
			}
			cn.Fail(errCut)
		}
		return h.Opcode.IO()
	}
	client = s.connect(base.Config{ReconnectTimeout: c.reconnect, RequireRDMA: c.require})
	err := do(ctx, openOn(t, client, "f"), make([]byte, 8))
	text, is := "read f: "+c.read, c.is
	if strings.HasSuffix(name, "write") {
		text, is = "write f: outcome uncertain: "+c.write, append([]error{base.ErrUncertain}, is...)
	} else if c.read == "" {
		if err != nil {
			t.Errorf("%s, %s: %v", name, c.what, err)
		}
		return
	}
	if err == nil || !regexp.MustCompile("^lwio: "+text+"$").MatchString(err.Error()) {
		t.Errorf("%s, %s: %v\nwant lwio: %s", name, c.what, err, text)
	}
	for _, target := range is {
		if !errors.Is(err, target) {
			t.Errorf("%s, %s: %v is not %v", name, c.what, err, target)
		}
	}
}

// A reason that another one contains, before it or after, appears once.
func TestReasonsAppearOnce(t *testing.T) {
	a, b := errors.New("a: x"), errors.New("b: y")
	for _, c := range []struct {
		r    base.Reasons
		want string
	}{
		{base.Reasons{a, b}, "a: x; b: y"},
		{base.Reasons{a, a}, "a: x"},
		{base.Reasons{a, b, a}, "b: y; a: x"},
		{base.Reasons{a, base.Uncertain(a)}, "outcome uncertain: a: x"},
		{base.Reasons{base.Uncertain(a), a}, "outcome uncertain: a: x"},
		{base.Reasons{base.Reasons{a, b}, b}, "a: x; b: y"},
		{base.Reasons{a}, "a: x"},
	} {
		if c.r.Error() != c.want || !errors.Is(c.r, a) {
			t.Errorf("%q, not %q", c.r.Error(), c.want)
		}
	}
}
