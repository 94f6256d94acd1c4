package lwio_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"lwio"
	"lwio/internal/test/faultconn"
	"lwio/lwiotest"
	"lwio/rdma"
	"lwio/rdma/iwarp"
	"lwio/server"
)

// cutter writes pieces of a file, each by a client whose first RDMA connection has a
// life of its own.
type cutter struct {
	t       *testing.T
	srv     *lwiotest.Server
	backend *applied
	size    int   // of a piece, in bytes
	off     int64 // of the next piece
	batched bool  // by a Batch
	stats   lwio.Stats
}

// write writes the next piece and returns how many bytes were sent and received when
// the client had its connection.
func (k *cutter) write(life *faultconn.Dialer) (sent, received int64) {
	k.t.Helper()
	cfg := &lwio.Config{RequireRDMA: true, ReconnectTimeout: faultPatience, Timeout: faultPatience}
	cfg.Providers = []rdma.Provider{iwarp.New(&iwarp.Config{Dial: life.DialTCP})}
	c, err := lwio.Dial(k.t.Context(), k.srv.URL(), cfg)
	if err != nil {
		k.t.Fatal(err)
	}
	sent, received = life.Sent(), life.Received()
	f, err := c.OpenFile(k.t.Context(), "file", os.O_RDWR|os.O_CREATE, 0)
	if err != nil {
		k.t.Fatal(err)
	}
	n, err := k.put(c, f)
	if err = errors.Join(err, f.Sync(k.t.Context()), f.Close()); n != k.size || err != nil {
		k.t.Errorf("dead at %d or %d: %d bytes, %v", life.SendLimit, life.ReceiveLimit, n, err)
	}
	k.off += int64(k.size)
	st := c.Stats()
	k.stats.Lost += st.Lost
	k.stats.ReplayedWrites += st.ReplayedWrites
	if err := c.Close(); err != nil {
		k.t.Errorf("close: %v", err)
	}
	return sent, received
}

// put writes the next piece to f.
func (k *cutter) put(c *lwio.Client, f *lwio.File) (int, error) {
	p := random(k.size, 1)
	if !k.batched {
		return f.WriteAt(p, k.off)
	}
	b := c.NewBatch(1)
	defer b.Close()
	if err := b.WriteAt(f, p, k.off, 0); err != nil {
		return 0, err
	}
	done, err := b.Wait(k.t.Context(), 1)
	if err != nil {
		return 0, err
	}
	return done[0].N, done[0].Err
}

// TestWriteCutAtEveryByte cuts the connection at every byte that a write sends, REGISTER
// included, and at every byte of the answers: it goes on over another one, and is applied
// once, as the server's side counts, and as the bytes show that a competitor wrote after it.
//
// Source: [LWIO §Write], [OP-112]
func TestWriteCutAtEveryByte(t *testing.T) { (&cutter{t: t, size: 200}).cutAtAll(1) }

// TestPartsCutAtManyBytes is that for a write of several requests, by a call and by a Batch,
// at one byte of many.
//
// Source: [LWIO §Write], [OP-61b], [OP-112]
func TestPartsCutAtManyBytes(t *testing.T) {
	const parts = 5
	for name, batched := range map[string]bool{"WriteAt": false, "Batch": true} {
		t.Run(name, func(t *testing.T) {
			(&cutter{t: t, size: parts*cutPart - 100, batched: batched}).cutAtAll(83)
		})
	}
}

// cutPart is the longest data of a request, in bytes.
const cutPart = 4096

// cutAtAll writes pieces, and cuts the connection of each behind another byte, step bytes
// behind the one before.
func (k *cutter) cutAtAll(step int64) {
	t, dir := k.t, k.t.TempDir()
	k.backend = newApplied(t, dir)
	k.srv = lwiotest.NewServer(t, &lwiotest.Config{Backend: k.backend, Limits: server.Limits{MaxRecvBufferSize: cutPart}})
	full := &faultconn.Dialer{SendLimit: -1, ReceiveLimit: -1}
	sent, received := k.write(full)
	if all := full.Sent() - sent; all < int64(48+36+48+k.size) || full.Received()-received < 2*16 || k.stats.Lost != 0 {
		t.Fatalf("undisturbed: %d bytes sent, %d received, %d lost", all, full.Received()-received, k.stats.Lost)
	}
	if testing.Short() || raceEnabled {
		step *= 29
	}
	for n := sent + 1; n < full.Sent(); n += step {
		k.write(&faultconn.Dialer{SendLimit: n, ReceiveLimit: -1})
	}
	for n := received + 1; n < full.Received(); n += min(step, 29) {
		k.write(&faultconn.Dialer{SendLimit: -1, ReceiveLimit: n})
	}
	if k.stats.Lost == 0 || k.stats.ReplayedWrites == 0 {
		t.Errorf("%d connections were lost, %d writes sent again", k.stats.Lost, k.stats.ReplayedWrites)
	}
	if err := k.backend.once(int(k.off)); err != nil {
		t.Error(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "file"))
	if err != nil || !bytes.Equal(got, bytes.Repeat([]byte{rival}, int(k.off))) {
		t.Errorf("a write came after the write of another client, or not at all: %d bytes, %v", len(got), err)
	}
	t.Logf("%d writes, %d connections lost, %d writes sent again", k.off/int64(k.size), k.stats.Lost, k.stats.ReplayedWrites)
}

// TestLongWriteCutWhilePartsWait cuts the connection of a write that has more requests than a
// call keeps in flight: those that were never sent share the path with the replayed ones.
//
// Source: [LWIO §Write], [OP-61b], [OP-112]
func TestLongWriteCutWhilePartsWait(t *testing.T) {
	const parts = 60
	dir := t.TempDir()
	k := &cutter{t: t, size: parts * cutPart, backend: newApplied(t, dir)}
	k.srv = lwiotest.NewServer(t, &lwiotest.Config{Backend: k.backend, Limits: server.Limits{MaxRecvBufferSize: cutPart}})
	full := &faultconn.Dialer{SendLimit: -1, ReceiveLimit: -1}
	sent, _ := k.write(full)
	for _, part := range []int64{1, 5, 20, 40} {
		k.write(&faultconn.Dialer{SendLimit: sent + part*cutPart, ReceiveLimit: -1})
	}
	if k.stats.Lost == 0 || k.stats.ReplayedWrites == 0 {
		t.Errorf("%d connections were lost, %d writes replayed", k.stats.Lost, k.stats.ReplayedWrites)
	}
	if err := k.backend.once(int(k.off)); err != nil {
		t.Error(err)
	}
}
