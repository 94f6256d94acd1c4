package fileio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
)

// A client that had to begin without RDMA tries again, and makes use of it when it comes:
// for files that were open before, and for buffers. Until then no call waits for it.
//
// Source: [LWIO §Network Discovery], [OP-112]
func TestRDMAConnectionComesAfterDial(t *testing.T) { onEach(t, testRDMAConnectionComesAfterDial) }

func testRDMAConnectionComesAfterDial(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(10_000))
	s := newRawServer(t, on, share)
	s.away(true)
	var log bytes.Buffer
	c, err := s.dial(&base.Config{Connections: 2, ReconnectTimeout: time.Hour, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if tr := c.Transport(); tr.RDMA() || !strings.Contains(tr.Reason, base.ErrNotOffered.Error()) {
		t.Error(tr)
	}
	f := openOn(t, c, "f")
	b, err := c.Alloc(t.Context(), 10_000)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if n, err := f.ReadAt(b.Bytes(), 0); n != 10_000 || err != nil || !bytes.Equal(b.Bytes(), pattern(10_000)) {
		t.Error(n, err)
	}
	if n, err := f.WriteAt([]byte("over SMB"), 0); n != 8 || err != nil {
		t.Error(n, err)
	}
	if s.sess.counted(&s.sess.smbReads) == 0 || c.Stats().SMB.Writes != 1 {
		t.Error("it did not go over SMB")
	}
	s.away(false)
	waitFor(t, func() bool { return c.Transport().Connections == 2 })
	if tr := c.Transport(); tr.Name != on || !strings.Contains(tr.Reason, "2 of 2 connections; 2 came after Dial") {
		t.Error(tr)
	}
	if n, err := f.ReadAt(b.Bytes(), 0); n != 10_000 || err != nil || string(b.Bytes()[:8]) != "over SMB" {
		t.Error(n, err)
	}
	if n, err := f.WriteAt(b.Bytes()[:5000], 5000); n != 5000 || err != nil {
		t.Error(n, err)
	}
	if st := c.Stats(); st.RDMA.Reads != 1 || st.RDMA.Writes != 1 || st.Connects != 2 || st.Reconnects != 0 || st.Lost != 0 {
		t.Errorf("%+v", st)
	}
	c.Close()
	for _, want := range []string{"no RDMA, going on over SMB", "RDMA connection established after retries"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, &log)
		}
	}
	if n := strings.Count(log.String(), "still no RDMA"); n != 0 {
		t.Errorf("the log repeats itself %d times:\n%s", n, &log)
	}
}

// A client that is not to replace connections does not try again either, and one whose
// SMB session ends gives it up.
func TestNoReconnectWhenRefusedOrSessionLost(t *testing.T) {
	share := newFakeShare()
	s := newRawServer(t, "iwarp", share)
	s.away(true)
	c, err := s.dial(&base.Config{Connections: 2, ReconnectTimeout: -1})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Paths) != 0 || c.Transport().RDMA() {
		t.Error(len(c.Paths), c.Transport())
	}
	if c, err = s.dial(&base.Config{ReconnectTimeout: time.Hour}); err != nil {
		t.Fatal(err)
	}
	s.sess.lose(fmt.Errorf("the server has gone: %w", net.ErrClosed))
	c.Maintainers.Wait()
	if tr := c.Transport(); tr.RDMA() || !strings.Contains(tr.Reason, "SMB session has ended") {
		t.Error(tr)
	}
}

// When Close of a client returns, all goroutines of the client have ended.
func TestCloseEndsAllGoroutines(t *testing.T) { onEach(t, testCloseEndsAllGoroutines) }

func testCloseEndsAllGoroutines(t *testing.T, on string) {
	share := newFakeShare()
	s := newRawServer(t, on, share)
	c := s.connect(base.Config{ReconnectTimeout: time.Hour})
	release := make(chan struct{})
	s.sess.onClose = func(context.Context) { <-release }
	closed := make(chan error)
	for range 3 {
		go func() {
			err := c.Close()
			select {
			case <-release:
			default:
				err = errors.New("closed while the session is not")
			}
			closed <- err
		}()
	}
	waitFor(t, c.Closed.Load)
	for range 100 { // let those run that have nothing to wait for
		runtime.Gosched()
	}
	close(release)
	for range 3 {
		if err := <-closed; err != nil {
			t.Error(err)
		}
	}
}

// A call that loses the SMB session while RDMA connects has that as its error, not the key that
// the server does not know any more.
//
// Source: [OP-42]
func TestSessionLostInDial(t *testing.T) { onEach(t, testSessionLostInDial) }

func testSessionLostInDial(t *testing.T, on string) {
	s := newRawServer(t, on, newFakeShare())
	s.handle = func(c *rawConn, h wire.Header, _ []byte) bool {
		if h.Opcode != wire.OpAuth {
			return false
		}
		s.sess.lose(fmt.Errorf("the cable: %w", net.ErrClosed))
		c.status(h.Cookie, 0, uint32(ntstatus.AccessDenied))
		return true
	}
	for _, required := range []bool{false, true} {
		c, err := s.dial(&base.Config{RequireRDMA: required, ReconnectTimeout: time.Hour})
		if c != nil || !errors.Is(err, net.ErrClosed) || !strings.Contains(err.Error(), "SMB session has ended: the cable") {
			t.Errorf("%v, %v", c, err)
		}
	}
}
