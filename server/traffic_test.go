package server

import (
	"testing"
	"time"
	"unicode/utf8"

	"lwio/internal/ntstatus"
)

// Each bucket of a histogram takes what is below its bound and not below the one
// before.
func TestHistogram(t *testing.T) {
	var h histogram
	for _, x := range []struct {
		d      time.Duration
		bucket int
	}{
		{-1, 0}, {0, 0}, {time.Microsecond - 1, 0}, {time.Microsecond, 1}, {2 * time.Microsecond, 2},
		{LatencyBound(5) - 1, 5}, {LatencyBound(5), 6}, {LatencyBound(latencyBuckets - 2), latencyBuckets - 1},
		{time.Hour, latencyBuckets - 1},
	} {
		before := h.snapshot()
		h.observe(x.d)
		after := h.snapshot()
		for i := range after.Buckets {
			want := before.Buckets[i]
			if i == x.bucket {
				want++
			}
			if after.Buckets[i] != want {
				t.Errorf("%v: bucket %d has %d, want %d", x.d, i, after.Buckets[i], want)
			}
		}
		if after.Sum-before.Sum != max(x.d, 0) {
			t.Errorf("%v: the sum grew by %v", x.d, after.Sum-before.Sum)
		}
	}
}

// What a connection and a share did is counted for both, and once.
func TestTraffic(t *testing.T) {
	v := newEnv(t, envConfig{})
	c := v.client()
	fid := c.register(v.file("a", content(5000)))
	c.want(ntstatus.Success, 5000, c.readHeader(fid, 0, 8192, 0), nil)
	c.want(ntstatus.EndOfFile, 0, c.readHeader(fid, 9000, 10, 0), nil)
	c.want(ntstatus.FileClosed, 0, c.readHeader(fid+1, 0, 10, 0), nil)
	conn := v.conn().stats()
	if conn.Reads != (Count{Operations: 3, Bytes: 5000}) || conn.Failures != 2 || conn.Files != 1 || conn.Pending != 0 ||
		conn.Credits != clientCredits || conn.Provider != v.provider.Name() || conn.Client == "" || conn.Since.IsZero() {
		t.Errorf("the connection: %+v", conn)
	}
	shares := v.e.shares.snapshot()
	if len(shares) != 1 || shares[0].Reads != (Count{Operations: 2, Bytes: 5000}) || shares[0].Failures != 1 {
		t.Fatalf("the shares: %+v", shares)
	}
	n := uint64(0)
	for _, b := range shares[0].ReadLatency.Buckets {
		n += b
	}
	if n != 2 || shares[0].ReadLatency.Sum <= 0 || shares[0].WriteLatency != (Histogram{}) {
		t.Errorf("%d latencies: %+v", n, shares[0])
	}
}

// TestNamesOfClients finds statistics in UTF-8, whatever name a client gave its end
// of the connection, or the server's owner a share; different names stay so.
func TestNamesOfClients(t *testing.T) {
	c := &conn{f: &fabric{name: "shm"}, sess: newFakeSession(1)}
	seen := make(map[string]bool)
	for _, peer := range []string{"127.0.0.1:1", "6295e134/\xff\xfe", "6295e134/\xff\xff", "\xc3"} {
		c.peer = peer
		st := c.stats()
		if !utf8.ValidString(st.Client) || seen[st.Client] || utf8.ValidString(peer) && st.Client != peer {
			t.Errorf("%q is told as %q", peer, st.Client)
		}
		seen[st.Client] = true
	}
	var shares shareTable
	shares.get("\xff")
	if all := shares.snapshot(); len(all) != 1 || !utf8.ValidString(all[0].Share) {
		t.Errorf("%+v", all)
	}
}
