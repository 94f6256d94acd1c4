package lwio_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"lwio"
	"lwio/lwiotest"
	"lwio/rdma"
	"lwio/server"
)

// sizes are the numbers that the text depicts and leaves to both sides.
type sizes struct {
	name   string
	server server.Limits
	client lwio.Config
}

func allSizes() []sizes {
	smallServer := server.Limits{MaxRDMAWindowSize: 64 << 10, MaxRecvBufferSize: 4 << 10, Credits: 1, MaxCredits: 1, ReadBufferBytes: 256 << 10}
	largeServer := server.Limits{MaxRDMAWindowSize: 8 << 20, MaxRecvBufferSize: 1 << 20, Credits: 256, MaxCredits: 1024}
	smallClient := lwio.Config{MaxRDMAWindowSize: 512, MaxReadSize: 4 << 10, CopyThreshold: 1, Credits: 1}
	largeClient := lwio.Config{MaxRDMAWindowSize: 64 << 20, MaxReadSize: 64 << 20, CopyThreshold: 64 << 10, Credits: 1024}
	return []sizes{
		{"depicted", server.Limits{MaxRDMAWindowSize: 512 << 10, MaxRecvBufferSize: 8 << 10},
			lwio.Config{MaxRDMAWindowSize: 64 << 10, CopyThreshold: 1023, Credits: 32}},
		{"small", smallServer, smallClient},
		{"large", largeServer, largeClient},
		{"small server", smallServer, largeClient},
		{"small client", largeServer, smallClient},
		{"odd", server.Limits{MaxRDMAWindowSize: 100_001, MaxRecvBufferSize: 12_345, Credits: 7},
			lwio.Config{MaxRDMAWindowSize: 1001, MaxReadSize: 77_777, CopyThreshold: 333, Credits: 5}},
	}
}

// Any sizes of the two sides go together: every way of reading and writing, with as many
// bytes as are next to the limits of both.
//
// Source: [LWIO §Read], [LWIO §Write], [LWIO §Vectored Read], [LWIO §Vectored Write], [OP-6], [OP-60], [OP-60b], [OP-61], [OP-61c], [OP-64], [OP-78], [OP-91]
func TestSizesNextToLimits(t *testing.T) {
	for _, p := range lwio.DefaultProviders() {
		for _, z := range allSizes() {
			t.Run(p.Name()+"/"+z.name, func(t *testing.T) { testSizes(t, p, z) })
		}
	}
}

func testSizes(t *testing.T, p rdma.Provider, z sizes) {
	s := lwiotest.NewServer(t, &lwiotest.Config{Limits: z.server, Providers: []rdma.Provider{p}})
	z.client.Providers, z.client.RequireRDMA = []rdma.Provider{p}, true
	c := s.Client(&z.client)
	f, err := c.Create(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unbuffered, err := c.OpenFile(t.Context(), "f", os.O_WRONLY|lwio.Unbuffered, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unbuffered.Close()
	const most = 17 << 20
	source, got := random(most, 5), make([]byte, most)
	buf, err := c.Alloc(t.Context(), 2<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer buf.Close()
	file := filepath.Join(s.Dir, "f")
	for _, n := range around(z) {
		want := source[n%1000:][:n]
		if m, err := f.WriteAt(want, 3); m != n || err != nil {
			t.Fatalf("write of %d: %d, %v", n, m, err)
		}
		clear(got)
		if m, err := f.ReadAt(got[:n], 3); m != n || err != nil || !bytes.Equal(got[:n], want) {
			t.Fatalf("read of %d: %d, %v", n, m, err)
		}
		if m := min(n, len(buf.Bytes())); m > 0 {
			clear(buf.Bytes())
			if k, err := f.ReadAt(buf.Bytes()[:m], 3); k != m || err != nil || !bytes.Equal(buf.Bytes()[:m], want[:m]) {
				t.Fatalf("read of %d into a buffer: %d, %v", n, k, err)
			}
		}
		clear(got)
		if m, err := f.ReadVec(t.Context(), pagesOf(got[:n]), 3); m != n || err != nil || !bytes.Equal(got[:n], want) {
			t.Fatalf("vectored read of %d: %d, %v", n, m, err)
		}
		want = source[n%999:][:n]
		if m, err := f.WriteVec(t.Context(), pagesOf(want), 1); m != n || err != nil {
			t.Fatalf("vectored write of %d: %d, %v", n, m, err)
		}
		if local, err := os.ReadFile(file); err != nil || !bytes.Equal(local[1:][:n], want) {
			t.Fatalf("after a vectored write of %d: %v", n, err)
		}
		if m, err := unbuffered.WriteSame(t.Context(), source[:64], 5, int64(n)); m != int64(n) || err != nil {
			t.Fatalf("%d of the same: %d, %v", n, m, err)
		}
		if local, err := os.ReadFile(file); err != nil || !bytes.Equal(local[5:][:n], repeated(source[:64], n)) {
			t.Fatalf("after %d of the same: %v", n, err)
		}
		if err := f.Truncate(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.ReadAt(got[:1], 0); err != io.EOF { //nolint:errorlint // the contract says bare
		t.Error(err)
	}
	if st := c.Stats(); st.Lost != 0 || st.SMB != (lwio.Traffic{}) {
		t.Errorf("stats %+v", st)
	}
}

// around are sizes next to all limits, and multiples of some.
func around(z sizes) (list []int) {
	for _, n := range []int{1, 512, 4096, z.server.MaxRDMAWindowSize, z.server.MaxRecvBufferSize, z.server.MaxRecvBufferSize - 48,
		z.client.MaxRDMAWindowSize, z.client.CopyThreshold, min(z.client.MaxReadSize, 2<<20), 2*z.server.MaxRDMAWindowSize + 4096} {
		for d := -1; d <= 1; d++ {
			if m := n + d; m > 0 && m < 16<<20+8192 {
				list = append(list, m)
			}
		}
	}
	slices.Sort(list)
	list = slices.Compact(list)
	// Where each message carries little, large ones take long.
	small := z.client.Credits == 1 || z.server.Credits == 1
	return slices.DeleteFunc(list, func(n int) bool { return small && n > 1<<20 })
}

// pagesOf cuts memory into segments of one page.
func pagesOf(p []byte) (segs [][]byte) {
	for chunk := range slices.Chunk(p, 4096) {
		segs = append(segs, chunk)
	}
	return segs
}

// The server's name for itself leads no client elsewhere: the client connects over TCP for SMB
// and its pipe to the named server only.
//
// Source: [LWIO §Discovery], [OP-32b]
func TestServerContextSteersNoClient(t *testing.T) {
	s := lwiotest.NewServer(t, nil) // it calls itself by the host's name
	var mu sync.Mutex
	var dialled []string
	c := s.Client(&lwio.Config{RequireRDMA: true, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		dialled = append(dialled, addr)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}})
	for i := range 3 {
		put(t, c, fmt.Sprintf("f%d", i), random(5000, 1))
	}
	if st := c.Stats(); st.RDMA.Writes != 3 {
		t.Errorf("stats %+v", st)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(dialled, []string{s.Addr()}) {
		t.Errorf("the client connected to %q; the server is %s", dialled, s.Addr())
	}
}

// ReadVec of a file that is open Unbuffered reads an end that is no whole sector.
//
// Source: [LWIO §Vectored Read], [OP-82], [OP-83]
func TestReadVecUnbufferedHasAnyEnd(t *testing.T) {
	onEachTransport(t, func(t *testing.T, _ *lwiotest.Server, c *lwio.Client) {
		f, err := c.OpenFile(t.Context(), "f", os.O_RDWR|os.O_CREATE|lwio.Unbuffered, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		want := random(200_000, 1)
		if _, err := f.WriteAt(want, 0); err != nil {
			t.Fatal(err)
		}
		for _, last := range []int{1, 430, 511, 512, 513, 5000} {
			for _, page := range []int{512, 4096, 32 << 10} {
				segs := [][]byte{make([]byte, page), make([]byte, 2*page), make([]byte, last)}
				n, err := f.ReadVec(t.Context(), segs, 511)
				if got := bytes.Join(segs, nil); n != len(got) || err != nil || !bytes.Equal(got, want[511:][:n]) {
					t.Errorf("pages of %d, and %d bytes: %d, %v", page, last, n, err)
				}
			}
		}
	})
}
