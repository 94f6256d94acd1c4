package server

import (
	"testing"
	"unicode/utf8"

	"lwio/internal/ntstatus"
)

// I/O is counted once for its connection and once for its share.
func TestTrafficIsCountedForConnectionAndShare(t *testing.T) {
	v := newEnv(t, envConfig{})
	c := v.client()
	fid := c.register(v.file("a", content(5000)))
	c.want(ntstatus.Success, 5000, c.readHeader(fid, 0, 8192, 0), nil)
	c.want(ntstatus.EndOfFile, 0, c.readHeader(fid, 9000, 10, 0), nil)
	c.want(ntstatus.FileClosed, 0, c.readHeader(fid+1, 0, 10, 0), nil)
	// Latencies are counted after the answer is posted.
	eventually(t, "the delays are counted", func() bool { return v.conn().stats().ReadLatency.Operations == 2 })
	conn := v.conn().stats()
	if conn.Reads != (Count{Operations: 3, Bytes: 5000}) || conn.Failures != 2 || conn.Files != 1 || conn.Pending != 0 ||
		conn.Credits != clientCredits || conn.Provider != v.provider.Name() || conn.Client == "" || conn.Since.IsZero() {
		t.Errorf("the connection: %+v", conn)
	}
	if l := conn.ReadLatency; l.Sum <= 0 || conn.WriteLatency != (Latency{}) {
		t.Errorf("latencies of the connection: %+v, %+v", l, conn.WriteLatency)
	}
	shares := v.e.shares.snapshot()
	if len(shares) != 1 || shares[0].Reads != (Count{Operations: 2, Bytes: 5000}) || shares[0].Failures != 1 {
		t.Fatalf("the shares: %+v", shares)
	}
	n := shares[0].ReadLatency.Count()
	if n != 2 || shares[0].ReadLatency.Sum <= 0 || shares[0].WriteLatency != (Histogram{}) {
		t.Errorf("%d latencies: %+v", n, shares[0])
	}
}

// Reads of several files are counted together, and direct ones among them.
func TestTallyCountsReadsOfSeveralFiles(t *testing.T) {
	e, c := new(engine), new(conn)
	files := [2]*registeredFile{{traffic: new(shareTraffic)}, {traffic: new(shareTraffic)}}
	var y tally
	for i, direct := range []int{0, 1, 1, 0, 0} {
		y.add(e, c, files[i/3], uint32(10+i), direct)
	}
	if got := e.count.snapshot(); got.Reads != (Count{3, 33}) || got.InlineReads != 3 || got.DirectReads != 2 {
		t.Errorf("after the first file: %+v", got)
	}
	y.empty(e, c)
	y.empty(e, c)
	if got := e.count.snapshot(); got.Reads != (Count{5, 60}) || got.InlineReads != 5 || got.DirectReads != 2 {
		t.Errorf("in all: %+v", got)
	}
	if got := c.traffic.snapshot().Reads; got != (Count{5, 60}) {
		t.Errorf("of the connection: %+v", got)
	}
	for i, want := range []Count{{3, 33}, {2, 27}} {
		if got := files[i].traffic.snapshot().Reads; got != want {
			t.Errorf("of file %d: %+v", i, got)
		}
	}
}

// Statistics are UTF-8, even if the address of a client or the name of a share is not; different
// names stay different.
func TestStatisticsAreUTF8(t *testing.T) {
	c := &conn{fabric: &fabric{name: "shm"}, auth: authenticator{lineage: newFakeSession(1)}}
	seen := make(map[string]bool)
	for _, peer := range []string{"127.0.0.1:1", "6295e134/\xff\xfe", "6295e134/\xff\xff", "\xc3"} {
		c.peer.name = peer
		st := c.stats()
		if !utf8.ValidString(st.Client) || seen[st.Client] || utf8.ValidString(peer) && st.Client != peer {
			t.Errorf("%q is reported as %q", peer, st.Client)
		}
		seen[st.Client] = true
	}
	var shares shareTable
	shares.get("\xff")
	if all := shares.snapshot(); len(all) != 1 || !utf8.ValidString(all[0].Share) {
		t.Errorf("%+v", all)
	}
}
