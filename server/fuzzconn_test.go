package server

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"lwio/internal/account"
	"lwio/rdma"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// newFuzzConn returns an authenticated connection on a fuzzQueue, with two files to read and
// write: 1 is buffered, 2 is not.
func newFuzzConn(t *testing.T) (*conn, *fuzzQueue) {
	t.Helper()
	tmp := t.TempDir()
	dir, err := posix.OpenDir(tmp)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tmp, "f"), content(20_000), 0o600); err != nil {
		t.Fatal(err)
	}
	fs, err := vfs.New(vfs.Config{Shares: []vfs.Share{{Name: "s", Backend: dir}}})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := Config{FS: fs, Limits: Limits{
		Credits: 4, MaxRecvBufferSize: 4096, MaxRDMAWindowSize: 64 << 10, Workers: 1, ReadBufferBytes: 256 << 10,
	}}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	e := newEngine(&cfg)
	f := &fabric{layout: newLayout(&e.limits, rdma.AdapterInfo{
		Caps: rdma.CapDirectFile, MaxReceiveQueueDepth: 100, MaxInitiatorQueueDepth: 100,
	})}
	f.buffers = newTestBufferPool(4, 4, 128<<10)
	f.buffers.bytes = make([]byte, 4*16*blockUnit)
	q := &fuzzQueue{window: 1000}
	c := newConn(e, f, nil, slog.New(slog.DiscardHandler), peer{})
	c.setQueues(nil, q)
	c.auth.messages.FileCalls, c.auth.messages.Names = true, true
	c.auth.passed, c.auth.lineage, c.auth.peerWindow, c.auth.peerPage = true, newFakeSession(1), 1000, 512
	c.receives.mem = make([]byte, f.layout.total)
	q.c = c
	c.credits.grant, c.receives.spare = 4, c.receives.spare[:len(c.receives.spare)-4-f.layout.ahead]
	c.files.limit = 10
	c.poolUser = f.buffers.joinUser(c.auth.lineage.User())
	t.Cleanup(func() {
		e.close()
		for _, f := range c.files.removeAll() {
			f.release()
		}
		fs.Close()
	})
	for i := range 4 + f.layout.ahead {
		q.entries = append(q.entries, int32(i))
	}
	for _, options := range []vfs.Options{0, vfs.NoIntermediateBuffering, vfs.DirectoryFile} {
		path, access, dir := "f", vfs.ReadData|vfs.WriteData, options == vfs.DirectoryFile
		if dir {
			path, access = "", vfs.ReadAttributes
		}
		o, _, err := fs.Open(vfs.OpenRequest{
			Share: "s", Path: path, Access: access, Options: options, Owner: c.auth.lineage,
			ShareMode: vfs.ShareRead | vfs.ShareWrite, Disposition: vfs.OpenIf,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := o.Acquire(); err != nil {
			t.Fatal(err)
		}
		f := &registeredFile{
			open: o, canRead: !dir, canWrite: !dir, unbuffered: options == vfs.NoIntermediateBuffering, traffic: new(shareTraffic), jobs: &c.jobs,
			stopRevoke: func() {}, stopStall: func() {}, sum: e.registered, user: c.auth.lineage.User(),
		}
		f.sum.Take(f.user, 1, account.Last)
		f.join(e, c.fabric.buffers)
		c.files.add(f)
	}
	return c, q
}
