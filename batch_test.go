package lwio_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lwio"
	"lwio/internal/test/skip"
	"lwio/lwiotest"
)

// A batch has the effect of its operations made one by one, for operations of any size and
// memory, and with any number in flight.
//
// Source: [LWIO §I/O Processing]
func TestBatchAgainstModel(t *testing.T) {
	onEachTransport(t, func(t *testing.T, _ *lwiotest.Server, c *lwio.Client) {
		buf, err := c.Alloc(context.Background(), 2<<20)
		if err != nil {
			t.Fatal(err)
		}
		defer buf.Close()
		run := 0
		rapid.Check(t, func(rt *rapid.T) {
			run++
			f, err := c.Create(context.Background(), fmt.Sprintf("f%d", run))
			if err != nil {
				rt.Fatal(err)
			}
			defer c.Remove(context.Background(), f.Name())
			defer f.Close()
			playBatch(rt, c, f, buf.Bytes())
		})
	})
}

// playBatch writes pieces that do not overlap, and reads them back, some beyond the
// end.
func playBatch(rt *rapid.T, c *lwio.Client, f *lwio.File, registered []byte) {
	const cell = 80_000
	sizes := rapid.OneOf(rapid.IntRange(0, 2000), rapid.SampledFrom([]int{1024, 1025, 4096, 4097, 65536, 65537}), rapid.IntRange(0, cell))
	n := rapid.IntRange(1, 20).Draw(rt, "operations")
	b := c.NewBatch(n)
	defer b.Close()
	memory := func(i, size int, kind bool) []byte {
		if kind {
			return registered[i*cell:][:size]
		}
		return make([]byte, size)
	}
	want, size := make([]byte, n*cell), 0
	lengths, written := make([]int, n), make([][]byte, n)
	for i := range n {
		lengths[i] = sizes.Draw(rt, "size")
		written[i] = memory(i, lengths[i], rapid.Bool().Draw(rt, "registered"))
		copy(written[i], random(lengths[i], byte(i)))
		copy(want[i*cell:], written[i])
		if lengths[i] > 0 {
			size = max(size, i*cell+lengths[i])
		}
		if err := b.WriteAt(f, written[i], int64(i*cell), uint64(i)); err != nil {
			rt.Fatal(err)
		}
	}
	if err := b.WriteAt(f, nil, 0, 0); !errors.Is(err, lwio.ErrBatchFull) {
		rt.Fatal(err)
	}
	collect(rt, b, n, func(d lwio.Completion) {
		if d.N != lengths[d.Tag] || d.Err != nil {
			rt.Fatalf("write %d of %d bytes: %+v", d.Tag, lengths[d.Tag], d)
		}
	})
	got := make([][]byte, n)
	for i := range n {
		got[i] = memory(i, sizes.Draw(rt, "size"), rapid.Bool().Draw(rt, "registered"))
		clear(got[i])
		if err := b.ReadAt(f, got[i], int64(i*cell), uint64(i)); err != nil {
			rt.Fatal(err)
		}
	}
	collect(rt, b, n, func(d lwio.Completion) {
		off, p := int(d.Tag)*cell, got[d.Tag]
		there := min(max(size-off, 0), len(p))
		var end error
		if there < len(p) {
			end = io.EOF
		}
		if d.N != there || d.Err != end || !bytes.Equal(p[:there], want[off:][:there]) { //nolint:errorlint // the contract says bare
			rt.Fatalf("read %d of %d bytes at %d of %d: %+v", d.Tag, len(p), off, size, d)
		}
	})
}

// collect submits and waits for n completions, each once.
func collect(rt *rapid.T, b *lwio.Batch, n int, check func(d lwio.Completion)) {
	if rapid.Bool().Draw(rt, "submit") {
		if err := b.Submit(context.Background()); err != nil {
			rt.Fatal(err)
		}
	}
	seen := map[uint64]bool{}
	for len(seen) < n {
		list, err := b.Wait(context.Background(), rapid.IntRange(1, n).Draw(rt, "least"))
		if err != nil || len(list) == 0 {
			rt.Fatal(len(list), err)
		}
		for _, d := range list {
			if seen[d.Tag] {
				rt.Fatalf("%d came twice", d.Tag)
			}
			seen[d.Tag] = true
			check(d)
		}
	}
	if list, err := b.Wait(context.Background(), 1); b.Pending() != 0 || len(list) != 0 || err != nil {
		rt.Fatal(b.Pending(), list, err)
	}
}

// A batch costs no allocation for an operation whose memory is registered.
func TestBatchAllocations(t *testing.T) {
	if raceEnabled {
		skip.Test(t, "the race detector allocates")
	}
	onEachTransport(t, func(t *testing.T, _ *lwiotest.Server, c *lwio.Client) {
		if !c.Transport().RDMA() {
			return // SMB allocates its messages
		}
		const depth, bs = 16, 4096
		put(t, c, "f", random(depth*bs, 1))
		f, err := c.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		buf, err := c.Alloc(t.Context(), depth*bs)
		if err != nil {
			t.Fatal(err)
		}
		defer buf.Close()
		b := c.NewBatch(depth)
		defer b.Close()
		most := float64(maxAllocsPolling)
		if strings.HasSuffix(t.Name(), "sealed") {
			most = 2 * depth // a sealed connection registers the memory of each read
		}
		got := allocations(most, func() {
			for i := range depth {
				if err := b.ReadAt(f, buf.Bytes()[i*bs:][:bs], int64(i*bs), 0); err != nil {
					t.Fatal(err)
				}
			}
			if list, err := b.Wait(context.Background(), depth); len(list) != depth || err != nil {
				t.Fatal(len(list), err)
			}
		})
		// Both sides of the connection are in this process.
		if got > most {
			t.Errorf("%v allocations for %d reads", got, depth)
		}
	})
}

// Calls on a closed batch or file return fs.ErrClosed.
func TestClosedBatchRefusesOperations(t *testing.T) {
	onEachTransport(t, func(t *testing.T, _ *lwiotest.Server, c *lwio.Client) {
		put(t, c, "f", random(100, 1))
		f, err := c.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		b := c.NewBatch(0)
		p := make([]byte, 100)
		if err := errors.Join(b.ReadAt(f, p, 0, 1), b.Submit(t.Context()), b.Close(), b.Close()); err != nil {
			t.Error(err)
		}
		_, wait := b.Wait(t.Context(), 1)
		for _, err := range []error{b.ReadAt(f, p, 0, 1), b.WriteAt(f, p, 0, 1), b.Submit(t.Context()), wait} {
			if !errors.Is(err, fs.ErrClosed) {
				t.Error(err)
			}
		}
		b = c.NewBatch(2)
		defer b.Close()
		f.Close()
		if err := errors.Join(b.ReadAt(f, p, 0, 7), b.Submit(t.Context())); err != nil {
			t.Error(err)
		}
		if list, err := b.Wait(t.Context(), 1); err != nil || len(list) != 1 || list[0].Tag != 7 || !errors.Is(list[0].Err, fs.ErrClosed) {
			t.Error(list, err)
		}
	})
}

// File.Sync waits for the writes of a Batch that were sent, and not for Batch.Wait.
//
// Source: [OP-115]
func TestSyncBetweenSubmitAndWait(t *testing.T) {
	onEachTransport(t, func(t *testing.T, _ *lwiotest.Server, c *lwio.Client) {
		f, err := c.Create(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		const n = 4
		b := c.NewBatch(n)
		defer b.Close()
		for i := range n {
			if err := b.WriteAt(f, make([]byte, 4096), int64(i)<<12, uint64(i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Submit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(t.Context()); err != nil {
			t.Errorf("sync: %v", err)
		}
		if info, err := f.Stat(t.Context()); err != nil || info.Size() != n<<12 {
			t.Errorf("after sync: %v, %v", info, err)
		}
		if done, err := b.Wait(t.Context(), n); err != nil || len(done) != n {
			t.Errorf("wait: %d completions, %v", len(done), err)
		}
	})
}
