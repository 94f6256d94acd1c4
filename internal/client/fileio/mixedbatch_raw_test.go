package fileio

import (
	"errors"
	"os"
	"slices"
	"testing"

	"lwio/internal/client/base"
	"lwio/internal/client/rdmaconn"
)

// mixed is a client with two files: the server has taken one for RDMA and keeps the other on SMB.
type mixed struct {
	s        *rawServer
	c        *Client
	overRDMA *File
	overSMB  *File
}

// newMixed makes the client. Its connection has one credit.
func newMixed(t *testing.T, on string) *mixed {
	t.Helper()
	share := newFakeShare()
	share.put("rdma", pattern(1000))
	share.put("smb", pattern(1000))
	m := &mixed{s: newRawServer(t, on, share)}
	m.s.grant = 1
	m.c = m.s.connect(base.Config{})
	var err error
	for _, o := range []struct {
		f    **File
		name string
	}{{&m.overRDMA, "rdma"}, {&m.overSMB, "smb"}} {
		m.s.sess.noFile = o.name == "smb"
		if *o.f, err = m.c.OpenFile(t.Context(), o.name, os.O_RDWR|Unbuffered, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := (*o.f).ReadAt(make([]byte, 10), 5); err != nil {
			t.Fatal(err)
		}
	}
	if !m.overRDMA.Transport().RDMA() || m.overSMB.Transport().RDMA() {
		t.Fatal(m.overRDMA.Transport(), m.overSMB.Transport())
	}
	return m
}

// An operation over SMB does not wait for the operations of its batch that wait for a credit.
//
// Source: [OP-113]
func TestSMBDoesNotWaitForCredits(t *testing.T) { onEach(t, testSMBDoesNotWaitForCredits) }

func testSMBDoesNotWaitForCredits(t *testing.T, on string) {
	m := newMixed(t, on)
	held := m.s.holdReads(3)
	b := m.c.NewBatch(4)
	defer b.Close()
	p := make([]byte, 40)
	if err := errors.Join(b.Read(m.overRDMA, p[:10], 0, 0), b.Read(m.overRDMA, p[10:20], 0, 1), b.Submit(t.Context()),
		b.Read(m.overRDMA, p[20:30], 0, 2), b.Read(m.overSMB, p[30:], 0, 3)); err != nil {
		t.Fatal(err)
	}
	list, err := b.Wait(t.Context(), 1)
	if want := (Completion{Tag: 3, N: 10}); err != nil || len(list) != 1 || list[0] != want {
		t.Fatal(list, err)
	}
	go func() {
		for range 3 {
			(<-held)()
		}
	}()
	if list, err := b.Wait(t.Context(), 3); err != nil || len(list) != 3 {
		t.Error(list, err)
	}
	if !slices.Equal(p, slices.Repeat(pattern(10), 4)) {
		t.Errorf("wrong bytes: %v", p)
	}
}

// An operation over RDMA does not wait for a write of its batch that has as many parts in flight
// over SMB as are allowed.
//
// Source: [OP-113]
func TestRDMADoesNotWaitForSMB(t *testing.T) { onEach(t, testRDMADoesNotWaitForSMB) }

func testRDMADoesNotWaitForSMB(t *testing.T, on string) {
	m := newMixed(t, on)
	release := make(chan struct{})
	m.s.sess.onWrite = func([]byte) { <-release }
	b := m.c.NewBatch(2)
	defer b.Close()
	const size = (maxPieces + 3) * sameCopy
	p := make([]byte, 10)
	if err := errors.Join(b.WriteSame(m.overSMB, pattern(rdmaconn.ProtocolPage), 0, size, 0), b.Read(m.overRDMA, p, 0, 1)); err != nil {
		t.Fatal(err)
	}
	list, err := b.Wait(t.Context(), 1)
	if want := (Completion{Tag: 1, N: 10}); err != nil || len(list) != 1 || list[0] != want || !slices.Equal(p, pattern(10)) {
		t.Error(list, err)
	}
	close(release)
	list, err = b.Wait(t.Context(), 1)
	if want := (Completion{Tag: 0, N: size}); err != nil || len(list) != 1 || list[0] != want {
		t.Error(list, err)
	}
}
