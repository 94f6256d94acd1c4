//go:build linux

package shm

import (
	"bytes"
	"errors"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"

	"lwio/rdma"
)

// answered returns a write of n bytes from a file to the beginning of the peer's memory,
// and a write of the word at 64 KiB that announces it.
func (s *side) answered(src rdma.FileSource, peer *side, n int, word []byte) []rdma.Request {
	return []rdma.Request{
		{Op: rdma.OpWrite, Flags: rdma.FlagOnlyIfCached | rdma.FlagSilentSuccess, File: src, FileOffset: 4096, FileLength: n, Remote: peer.at(0)},
		{Op: rdma.OpWrite, ID: 9, Flags: rdma.FlagInline, Inline: word, Remote: peer.at(64 << 10)},
	}
}

// A short write from a file and the word after it are placed together, for each size, or
// as many of them as possible. Source: design decision 6
func TestFilePairIsPlacedTogether(t *testing.T) {
	active, passive := connected(t, nil, 1<<20)
	_, data, src := active.source(t, 100_000)
	active.introduce(t, passive.region)
	r := &active.inside().tx.data.reader
	read := r.fn
	_, strange := passive.alloc(t, 4096) // not introduced to the peer
	for what, x := range map[string]struct {
		change func(reqs []rdma.Request)
		n      int // in bytes
		posted int
		err    error
	}{
		"a byte":       {n: 1, posted: 2},
		"a page":       {n: 4096, posted: 2},
		"the most":     {n: pairRead, posted: 2},
		"too long":     {n: pairRead + 1, posted: 2},
		"from memory":  {func(reqs []rdma.Request) { reqs[1].Flags, reqs[1].SGL = 0, active.sge(8, 8) }, 4096, 2, nil},
		"not cached":   {func([]rdma.Request) { r.fn = func(uintptr) { r.n, r.err = -1, unix.EAGAIN } }, 4096, 0, rdma.StatusDeviceBusy},
		"at the end":   {func(reqs []rdma.Request) { reqs[0].FileOffset = 99_000 }, 4096, 0, rdma.StatusDeviceBusy},
		"by the ring":  {func(reqs []rdma.Request) { reqs[1].Remote = strange.RemoteAddr() }, 4096, 2, nil},
		"out of range": {func(reqs []rdma.Request) { reqs[0].FileOffset = -1 }, 4096, 0, rdma.StatusInvalidParameter},
	} {
		t.Run(what, func(t *testing.T) {
			defer func() { r.fn = read }()
			clear(passive.mem)
			word := []byte("answered")
			copy(active.mem[8:], word)
			reqs := active.answered(src, passive, x.n, word)
			if x.change != nil {
				x.change(reqs)
			}
			n, err := active.qp.Post(reqs)
			if n != x.posted || !errors.Is(err, x.err) {
				t.Fatalf("%d are posted, not %d: %v", n, x.posted, err)
			}
			if n == 0 {
				return
			}
			if res := next(t, active.icq); res.ID != 9 || res.Status != rdma.StatusSuccess {
				t.Errorf("result %+v", res)
			}
			active.deliver(t, passive)
			if !bytes.Equal(passive.mem[:x.n], data[4096:][:x.n]) {
				t.Error("the bytes differ")
			}
			got := passive.mem[64<<10:][:8]
			if what == "by the ring" {
				got = strange.Bytes()[:8]
			}
			if !bytes.Equal(got, word) {
				t.Errorf("the word is %x, not %x", got, word)
			}
		})
	}
}

// Earlier requests come first. If the queue is in use, or the file is being closed, the
// pair is posted as ordinary requests.
func TestFilePairYieldsToEarlierRequests(t *testing.T) {
	active, passive := connected(t, nil, 1<<20)
	_, data, src := active.source(t, 8192)
	active.introduce(t, passive.region)
	qp := active.qp.(*queuePair)
	word := []byte("12345678")
	reqs := active.answered(src, passive, 4096, word)
	for what, hinder := range map[string]func() (undo func()){
		"another goroutine sends": func() func() {
			qp.Initiator.Sending = true
			return func() { qp.Initiator.Sending = false }
		},
		"a message waits to be seen": func() func() {
			qp.staged = true
			return func() { qp.staged = false }
		},
		"the file is being closed": func() func() {
			src.(*fileSource).Reads.Lock()
			return src.(*fileSource).Reads.Unlock
		},
	} {
		qp.Initiator.Lock()
		undo := hinder()
		n, status := qp.postPairLocked(reqs)
		undo()
		qp.Initiator.Unlock()
		if n != 0 || status != rdma.StatusSuccess {
			t.Errorf("%s: %d are done, %v", what, n, status)
		}
	}
	if _, err := passive.qp.PostReceive([]rdma.ReceiveRequest{{SGL: passive.sge(128<<10, 8)}}); err != nil {
		t.Fatal(err)
	}
	active.post(t, append([]rdma.Request{{Op: rdma.OpSend, ID: 8, Flags: rdma.FlagInline, Inline: word}}, reqs...)...)
	for _, id := range []uint64{8, 9} {
		if res := next(t, active.icq); res.ID != id || res.Status != rdma.StatusSuccess {
			t.Errorf("result %+v, not of %d", res, id)
		}
	}
	if res := next(t, passive.rcq); res.Status != rdma.StatusSuccess || string(passive.mem[128<<10:][:8]) != string(word) {
		t.Errorf("received %+v, %q", res, passive.mem[128<<10:][:8])
	}
	active.deliver(t, passive)
	if !bytes.Equal(passive.mem[:4096], data[4096:]) || !bytes.Equal(passive.mem[64<<10:][:8], word) {
		t.Error("the bytes differ")
	}
}

// A fault in the peer's memory becomes the error, and the references that were held for
// the copy are released.
func TestFaultWhilePlacingIsAnError(t *testing.T) {
	active, _ := byReference(t, nil, 8192)
	c := active.inside()
	gone := must[[]byte](t)(unix.Mmap(-1, 0, 4096, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE))
	defer unix.Munmap(gone)
	copyFrom := func(mem []byte) (n int, err error) {
		defer c.tx.endPlacing(debug.SetPanicOnFault(true), &err)
		c.own.Busy.Store(1)
		return copy(make([]byte, 1), mem), nil
	}
	if _, err := copyFrom(gone); !errors.Is(err, errFault) || c.own.Busy.Load() != 0 {
		t.Errorf("a fault: %v, busy %d", err, c.own.Busy.Load())
	}
	if n, err := copyFrom([]byte{1}); n != 1 || err != nil {
		t.Errorf("no fault: %d, %v", n, err)
	}
}
