package fileio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/test/faultconn"
	"lwio/rdma"
	"lwio/rdma/iwarp"
)

// deathPatience is how long a call may take whose connection dies; without that it
// takes milliseconds.
const deathPatience = time.Minute

// outlive dials a server and uses it, on a connection of a given life, and says whether
// all went well. A failed call must name the cause, and in time; the result of any other must be right.
func outlive(t *testing.T, s *rawServer, life *faultconn.Dialer, n int) (whole bool) {
	t.Helper()
	provider := iwarp.New(&iwarp.Config{Dial: life.DialTCP})
	c, err := s.dial(&base.Config{
		Providers: []rdma.Provider{provider}, RequireRDMA: true, ReconnectTimeout: -1, Timeout: deathPatience,
	})
	whole = true
	check := func(what string, err error) bool {
		t.Helper()
		switch {
		case err == nil:
			return true
		case errors.Is(err, context.DeadlineExceeded), !errors.Is(err, net.ErrClosed) && !errors.Is(err, base.ErrNoRDMA):
			t.Fatalf("%s: %v", what, err)
		}
		var e *base.Error // Dial makes it one
		if what != "dial" && (!errors.As(err, &e) || !strings.Contains(err.Error(), "connection lost")) || len(err.Error()) < 30 {
			t.Fatalf("%s: no cause: %v", what, err)
		}
		whole = false
		return false
	}
	if !check("dial", err) {
		return false
	}
	defer c.Close()
	f, err := c.OpenFile(t.Context(), "f", 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	file := s.share.files["f"]
	before := file.content()
	data := fmt.Appendf(nil, "life %08d", n)
	after := append(bytes.Clone(data), before[len(data):]...)
	_, err = f.WriteAt(data, 0)
	acknowledged := check("write", err)
	got := make([]byte, 600)
	_, err = f.ReadAt(got[:100], 0)
	if check("read", err) && !bytes.Equal(got[:100], after[:100]) {
		t.Fatal("the read is wrong")
	}
	_, err = f.ReadAt(got, 0)
	if check("long read", err) && !bytes.Equal(got, after) {
		t.Fatal("the long read is wrong")
	}
	if now := file.content(); !bytes.Equal(now, after) && (acknowledged || !bytes.Equal(now, before)) {
		t.Fatalf("the file holds %.20q instead of %.20q (acknowledged: %v)", now, after, acknowledged)
	}
	return whole
}

// A server dies at every byte of everything it sends, and at every byte of everything
// it is sent: the calls end, and say that the connection was lost.
//
// Source: [LWIO §I/O Processing] [OP-94f]
func TestDeathAtEveryByte(t *testing.T) {
	share := newFakeShare()
	share.put("f", bytes.Repeat([]byte{'0'}, 600))
	n, lived := 0, 0
	try := func(life *faultconn.Dialer) bool {
		s := newRawServer(t, "iwarp", share)
		defer s.Close()
		n++
		return outlive(t, s, life, n)
	}
	full := faultconn.Dialer{SendLimit: -1, ReceiveLimit: -1}
	if !try(&full) {
		t.Fatal("without death something fails")
	}
	step := int64(1)
	if testing.Short() || raceDetector {
		step = 13
	}
	for k := int64(0); k < full.Sent(); k += step {
		if try(&faultconn.Dialer{SendLimit: k, ReceiveLimit: -1}) {
			lived++
		}
	}
	for k := int64(0); k < full.Received(); k += step {
		if try(&faultconn.Dialer{SendLimit: -1, ReceiveLimit: k}) {
			lived++
		}
	}
	if full.Sent() < 500 || full.Received() < 700 || lived > n/8 { // the last bytes are a farewell
		t.Errorf("%d of %d lived to the end, of %d and %d bytes", lived, n, full.Sent(), full.Received())
	}
}
