package fileio

import (
	"bytes"
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"lwio/internal/client/base"
	"lwio/internal/client/rdmaconn"
	"lwio/rdma"
	"lwio/rdma/rdmatest/fault"
)

// sameSize is a WriteSame of many parts, in bytes.
const sameSize = 32*sameCopy + 5

// testSameContent writes a page of sameSize bytes in each way and checks the file.
func testSameContent(t *testing.T, share *fakeShare, c *Client, check func()) {
	t.Helper()
	page := pattern(rdmaconn.ProtocolPage)
	for name, do := range sameWays {
		share.put("f", nil)
		f, err := c.OpenFile(t.Context(), "f", os.O_RDWR|Unbuffered, 0)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := do(c, f, page, 0, sameSize); n != sameSize || err != nil {
			t.Fatalf("%s: %d, %v", name, n, err)
		}
		if !bytes.Equal(share.files["f"].content(), bytes.Repeat(page, sameSize/len(page)+1)[:sameSize]) {
			t.Errorf("%s: wrong bytes at the server", name)
		}
		check()
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// All messages of a WriteSame over SMB are sent from one run of pages.
//
// Source: [LWIO §Vectored Write], [OP-79]
func TestWriteSameOverSMBSharesOneRun(t *testing.T) {
	share := newFakeShare()
	c, sess := overSMB(t, share)
	var mu sync.Mutex
	runs := map[*byte]bool{}
	sess.onWrite = func(p []byte) {
		mu.Lock()
		defer mu.Unlock()
		runs[&p[0]] = true
	}
	testSameContent(t, share, c, func() {
		if len(runs) != 1 {
			t.Errorf("%d runs of pages", len(runs))
		}
		clear(runs)
	})
}

// A WriteSame to a server that repeats no pages registers one run of pages on each connection.
//
// Source: [LWIO §Vectored Write], [OP-79], [OP-91]
func TestWriteSameRegistersOneRun(t *testing.T) { onEach(t, testWriteSameRegistersOneRun) }

func testWriteSameRegistersOneRun(t *testing.T, on string) {
	for _, connections := range []int{1, 2} {
		share := newFakeShare()
		s := newRawServer(t, on, share)
		s.window, s.recvSize = 4095, 64<<10 // a page is more than a window
		var counted []*fault.Provider
		cfg := base.Config{Connections: connections}
		for _, p := range defaults() {
			counted = append(counted, fault.Wrap(p, &fault.Config{}))
			cfg.Providers = append(cfg.Providers, rdma.Provider(counted[len(counted)-1]))
		}
		regions := func() (n int) {
			for _, p := range counted {
				n += int(p.Stats().Regions)
			}
			return n
		}
		c := s.connect(cfg)
		before := regions()
		testSameContent(t, share, c, func() {
			if n := regions() - before; n < 1 || n > connections {
				t.Errorf("%d registrations over %d connections", n, connections)
			}
			before = regions()
		})
		if n := s.sess.counted(&s.sess.smbWrites); n > 0 {
			t.Errorf("%d writes over SMB", n)
		}
	}
}

// A WriteSame to a server that repeats no pages goes on after the loss of its connection, with
// the run registered on the next connection.
//
// Source: [OP-79], [OP-112]
func TestWriteSameRegistersItsRunAgain(t *testing.T) { onEach(t, testWriteSameRegistersItsRunAgain) }

func testWriteSameRegistersItsRunAgain(t *testing.T, on string) {
	share := newFakeShare()
	s := newRawServer(t, on, share)
	s.window, s.recvSize, s.echoes = 4095, 64<<10, true
	c := s.connect(base.Config{ReconnectTimeout: time.Minute})
	conn := <-s.accepted
	share.put("f", nil)
	f, err := c.OpenFile(t.Context(), "f", os.O_RDWR|Unbuffered, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := c.NewBatch(1)
	page := pattern(rdmaconn.ProtocolPage)
	if err := errors.Join(b.WriteSame(f, page, 0, sameSize, 0), b.Submit(t.Context())); err != nil {
		t.Fatal(err)
	}
	conn.cut()
	list, err := b.Wait(context.Background(), 1)
	if err != nil || list[0].N != sameSize || list[0].Err != nil {
		t.Fatal(list, err)
	}
	if !bytes.Equal(share.files["f"].content(), bytes.Repeat(page, sameSize/len(page)+1)[:sameSize]) {
		t.Error("wrong bytes at the server")
	}
	if st := c.Stats(); st.Lost != 1 || st.Reconnects != 1 {
		t.Errorf("%+v", st)
	}
	if err := errors.Join(b.Close(), f.Close()); err != nil {
		t.Error(err)
	}
}
