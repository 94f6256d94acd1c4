package fileio

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"lwio/internal/client/base"
)

// Data that a server sends after the caller has left finds the memory closed.
//
// Source: [OP-111], [OP-113]
func TestLateDataFindsMemoryClosed(t *testing.T) { onEach(t, testLateDataFindsMemoryClosed) }

func testLateDataFindsMemoryClosed(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(100_000))
	s := newRawServer(t, on, share)
	held := s.holdReads(1)
	c := s.connect(base.Config{})
	f := openOn(t, c, "f")
	ctx, cancel := context.WithCancel(t.Context())
	p := make([]byte, 5000)
	done := make(chan error)
	go func() {
		_, err := f.ReadAtContext(ctx, p, 0)
		done <- err
	}()
	answer := <-held
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	answer()
	waitFor(t, func() bool { return !c.Transport().RDMA() })
	if !bytes.Equal(p, make([]byte, len(p))) {
		t.Error("memory changed after the call had returned")
	}
	if n, err := f.ReadAt(p, 1); n != len(p) || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// A small read that was given up keeps its entry, so that a late answer is placed in
// memory that no call uses.
//
// Source: [OP-94a]
func TestLateDataOfSmallReads(t *testing.T) { onEach(t, testLateDataOfSmallReads) }

func testLateDataOfSmallReads(t *testing.T, on string) {
	share := newFakeShare()
	share.put("f", pattern(100_000))
	s := newRawServer(t, on, share)
	held := s.holdReads(1)
	c := s.connect(base.Config{})
	f := openOn(t, c, "f")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := f.ReadAtContext(ctx, make([]byte, 100), 0)
		done <- err
	}()
	answer := <-held
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	answer()
	cn := c.Live()
	waitFor(t, func() bool { return freeCredits(cn) == 16 })
	p := make([]byte, 100)
	if _, err := f.ReadAt(p, 1); err != nil || !bytes.Equal(p, pattern(100_000)[1:101]) {
		t.Error(err)
	}
	if !c.Transport().RDMA() {
		t.Error(c.Transport())
	}
}
