package server

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
	"lwio/vfs"
)

// callingClient is a client that has authenticated with the extension of file calls.
func (v *env) callingClient() *rawClient {
	v.t.Helper()
	n := v.negotiate(v.sess)
	c := v.connect(n)
	c.auth(n, authOptions{mutate: offerFileCalls})
	if c.params.Extensions != wire.FileCalls|wire.Names {
		v.t.Fatalf("the server takes the extensions %#x", c.params.Extensions)
	}
	return c
}

// offerFileCalls offers an extension that no server knows, too.
func offerFileCalls(p *wire.AuthParams) { p.Extensions = wire.FileCalls | wire.Names | 1<<31 }

// asked is a file call that is completed by a status response.
func asked(h wire.Header) wire.Header {
	h.Flags |= wire.FlagInterrupt
	return h
}

// statHeader is a STAT into the beginning of the in region.
func (c *rawClient) statHeader(fid uint16) wire.Header {
	at := c.in.RemoteAddr()
	return asked(wire.NewStat(fid, wire.RDMARegion{DataVa: at.Addr, DataMh: uint32(at.Token), Length: 100}))
}

// Source: [OP-116]
func TestFileCallsAreAnswered(t *testing.T) { onEach(t, testFileCallsAreAnswered) }

func testFileCallsAreAnswered(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	c := v.callingClient()
	v.file("f", content(5000))
	o := v.open("f", vfs.ReadData|vfs.WriteData|vfs.ReadAttributes, 0, v.sess)
	fid := c.register(o)
	other := v.open("f", vfs.ReadData, 0, "another")
	defer other.Close()

	l := wire.FileLock{Offset: 100, Length: 50, Sequence: 0x11}
	c.want(ntstatus.Success, 0, asked(wire.NewLock(fid, l, false)), nil)
	if err := other.Acquire(); err != nil {
		t.Fatal(err)
	}
	if _, err := other.ReadAt(make([]byte, 10), 120); ntstatus.Of(err) != ntstatus.FileLockConflict {
		t.Errorf("read of a locked range: %v", err)
	}
	other.Release()
	c.want(ntstatus.LockNotGranted, 0, asked(wire.NewLock(fid, l, false)), nil)
	c.want(ntstatus.Success, 0, asked(wire.NewLock(fid, l, true)), nil) // over its own
	c.want(ntstatus.Success, 0, asked(wire.NewUnlock(fid, l)), nil)
	c.want(ntstatus.Success, 0, asked(wire.NewUnlock(fid, l)), nil)
	c.want(ntstatus.RangeNotLocked, 0, asked(wire.NewUnlock(fid, l)), nil)
	c.want(ntstatus.InvalidLockRange, 0, asked(wire.NewLock(fid, wire.FileLock{Offset: 2, Length: 1<<64 - 1}, false)), nil)

	c.want(ntstatus.Success, 0, asked(wire.NewSync(fid)), nil)
	c.want(ntstatus.Success, 0, asked(wire.NewSetSize(fid, 6000)), nil)
	c.want(ntstatus.InvalidParameter, 0, asked(wire.NewSetSize(fid, 1<<63)), nil)
	c.want(ntstatus.Success, wire.StatInfoSize, c.statHeader(fid), nil)
	got, err := wire.DecodeStatInfo(c.in.Bytes()[:wire.StatInfoSize])
	if err != nil {
		t.Fatal(err)
	}
	info, err := o.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if got.Size != 6000 || got.ID != info.ID || got.Attributes != vfs.AttrArchive || got.Links != 1 || got.DeletePending ||
		!got.Modified.Equal(info.Modified.Truncate(100*time.Nanosecond)) || got.AllocationSize != uint64(info.AllocationSize) {
		t.Errorf("STAT: %+v; the file: %+v", got, info)
	}
	for _, h := range []wire.Header{
		wire.NewLock(fid+1, l, false), wire.NewUnlock(fid+1, l), wire.NewSync(fid + 1), wire.NewSetSize(fid+1, 1), c.statHeader(fid + 1),
	} {
		c.want(ntstatus.FileClosed, 0, asked(h), nil)
	}
	if st := v.e.stats(); st.FileCalls != 16 || st.FileCallFailures != 9 || st.Syncs != 1 || st.Failures != 0 {
		t.Errorf("%d calls, %d failures, %d syncs, %d failures of I/O", st.FileCalls, st.FileCallFailures, st.Syncs, st.Failures)
	}
	if n := c.v.e.conns.authenticated()[0].send.wakeups.pending.Load(); n != 0 {
		t.Errorf("%d requests are outstanding", n)
	}
}

// The rights of the open hold.
//
// Source: [OP-57] [OP-116]
func TestFileCallsNeedRights(t *testing.T) {
	v := newEnv(t, envConfig{})
	c := v.callingClient()
	v.file("f", content(100))
	fid := c.register(v.open("f", vfs.ReadData, 0, v.sess))
	c.want(ntstatus.AccessDenied, 0, asked(wire.NewSetSize(fid, 1)), nil)
	c.want(ntstatus.AccessDenied, 0, asked(wire.NewSync(fid)), nil)
	c.want(ntstatus.AccessDenied, 0, c.statHeader(fid), nil)
	c.want(ntstatus.Success, 0, asked(wire.NewLock(fid, wire.FileLock{Length: 1}, true)), nil)
	fid = c.register(v.open("f", vfs.ReadAttributes|vfs.Delete, 0, v.sess))
	c.want(ntstatus.AccessDenied, 0, asked(wire.NewLock(fid, wire.FileLock{Offset: 5, Length: 1}, true)), nil)
	c.want(ntstatus.Success, wire.StatInfoSize, c.statHeader(fid), nil)
}

// A polled file call is answered by a status block, and wakes a sleeping client.
//
// Source: [OP-93d] [OP-116]
func TestFileCallsArePolled(t *testing.T) {
	v := newEnv(t, envConfig{})
	c := v.callingClient()
	fid := c.register(v.file("f", content(100)))
	h := wire.NewSync(fid)
	place := c.in.Bytes()[512:520]
	copy(place, wire.PendingBlock().AppendTo(nil))
	h.CompleteByWrite(c.in.RemoteAddr().Addr+512, uint32(c.in.RemoteAddr().Token))
	c.send(h, nil)
	c.want(ntstatus.Success, 0, wire.NewInterrupt(1), nil) // after the completion, which was written before it
	if string(place) != string(make([]byte, 8)) {
		t.Errorf("status block %x", place)
	}
}

// lookupHeader is a LOOKUP into the beginning of the in region.
func (c *rawClient) lookupHeader(fid uint16) wire.Header {
	h := c.statHeader(fid)
	h.Opcode = wire.OpLookup
	return h
}

// LOOKUP describes the files of a registered directory as a description over SMB does, and refuses the names that a
// CREATE refuses.
//
// Source: [OP-118]
func TestLookupDescribesFilesOfADirectory(t *testing.T) {
	onEach(t, testLookupDescribesFilesOfADirectory)
}

func testLookupDescribesFilesOfADirectory(t *testing.T, on string) {
	v := newEnv(t, envConfig{on: on})
	c := v.callingClient()
	if err := os.MkdirAll(filepath.Join(v.dir, "d", "e"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := v.file("d/e/f", content(5000))
	root, d := v.open("", vfs.ReadAttributes, vfs.DirectoryFile, v.sess), v.open("d", vfs.ReadData, vfs.DirectoryFile, v.sess)
	inRoot, inD, onFile := c.register(root), c.register(d), c.register(file)
	want := func(fid uint16, name string, o *vfs.Open) {
		t.Helper()
		c.want(ntstatus.Success, wire.StatInfoSize, c.lookupHeader(fid), []byte(name))
		got, err := wire.DecodeStatInfo(c.in.Bytes()[:wire.StatInfoSize])
		if err != nil {
			t.Fatal(err)
		}
		info, err := o.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if got.Size != uint64(info.Size) || got.ID != info.ID || got.Attributes != info.ReportedAttributes() || got.DeletePending != info.DeletePending ||
			!got.Modified.Equal(info.Modified.Truncate(100*time.Nanosecond)) {
			t.Errorf("LOOKUP of %q: %+v; the file: %+v", name, got, info)
		}
	}
	want(inRoot, "d/e/f", file)
	want(inD, "e/f", file)
	want(inRoot, "d", d)
	want(inD, "", d)
	want(inRoot, "", root)
	for name, status := range map[string]ntstatus.Status{
		"none": ntstatus.ObjectNameNotFound, "none/f": ntstatus.ObjectPathNotFound, "e/f/": ntstatus.NotADirectory, "../d": ntstatus.ObjectPathSyntaxBad,
		"e/../f": ntstatus.ObjectPathSyntaxBad, "/e": ntstatus.ObjectPathSyntaxBad, "e//f": ntstatus.ObjectNameInvalid, `e\f`: ntstatus.ObjectNameInvalid,
		"a:b": ntstatus.ObjectNameInvalid, "a\x00": ntstatus.ObjectNameInvalid, "\xff": ntstatus.ObjectNameInvalid,
	} {
		c.want(status, 0, c.lookupHeader(inD), []byte(name))
	}
	c.want(ntstatus.NotADirectory, 0, c.lookupHeader(onFile), []byte("f"))
	c.want(ntstatus.AccessDenied, 0, c.readHeader(inD, 0, 10, 0), nil)
	l := wire.FileLock{Length: 1}
	for _, h := range []wire.Header{wire.NewLock(inD, l, false), wire.NewUnlock(inD, l), wire.NewSetSize(inD, 1)} {
		c.want(ntstatus.InvalidDeviceRequest, 0, asked(h), nil)
	}
	c.want(ntstatus.AccessDenied, 0, asked(wire.Header{Opcode: wire.OpWrite, Fid: inD, Length: 1}), []byte("x"))
	c.want(ntstatus.FileClosed, 0, c.lookupHeader(inD+100), []byte("e"))
	if n := c.v.e.conns.authenticated()[0].send.wakeups.pending.Load(); n != 0 {
		t.Errorf("%d requests are outstanding", n)
	}
	if err := root.Close(); err != nil {
		t.Fatal(err)
	}
	if n := v.fs.Stats().Opens; n != 2 {
		t.Errorf("%d files are open", n)
	}
}

// A directory is registered, and LOOKUP is known, on a connection with the extension alone.
//
// Source: [OP-118]
func TestLookupNeedsTheExtension(t *testing.T) {
	v := newEnv(t, envConfig{})
	n := v.negotiate(v.sess)
	c := v.connect(n)
	c.auth(n, authOptions{mutate: func(p *wire.AuthParams) { p.Extensions = wire.FileCalls }})
	if c.params.Extensions != wire.FileCalls {
		t.Errorf("extensions %#x", c.params.Extensions)
	}
	h, body := c.registerMessage(v.open("", vfs.ReadAttributes, vfs.DirectoryFile, v.sess))
	c.want(ntstatus.FileIsADirectory, 0, h, body)
	fid := c.register(v.file("f", content(100)))
	c.want(ntstatus.InvalidDeviceRequest, 0, c.lookupHeader(fid), []byte("f"))
	c.want(ntstatus.Success, 0, asked(wire.NewSync(fid)), nil) // a file call is known
}

// Without the extension a file call is an unknown opcode, and no I/O.
//
// Source: [OP-116] [OP-92e]
func TestFileCallsNeedTheExtension(t *testing.T) {
	v := newEnv(t, envConfig{})
	c := v.client()
	if c.params.Extensions != 0 {
		t.Errorf("extensions %#x that were not asked for", c.params.Extensions)
	}
	fid := c.register(v.file("f", content(100)))
	for _, h := range []wire.Header{wire.NewLock(fid, wire.FileLock{Length: 1}, false), wire.NewSync(fid), c.statHeader(fid)} {
		c.want(ntstatus.InvalidDeviceRequest, 0, asked(h), nil)
	}
	c.want(ntstatus.Success, 100, c.readHeader(fid, 0, 100, 0), nil)
	if v.fs.Stats().Locks != 0 || v.e.stats().FileCalls != 0 {
		t.Error("a call was done")
	}
	h := wire.NewSync(fid)
	c.send(h, nil)
	c.wantCut()
}

// A flood of LOCKs is bounded by the limits of locks, and holds up no other request. The locks stay with the open
// when the connection is cut, and end with it.
//
// Source: [OP-116]
func TestLockFlood(t *testing.T) {
	v := newEnv(t, envConfig{})
	c := v.callingClient()
	o := v.file("f", content(100))
	fid := c.register(o)
	granted := 0
	for i := range 5000 {
		s := c.call(asked(wire.NewLock(fid, wire.FileLock{Offset: uint64(i), Length: 1}, false)), nil)
		if s.Status == 0 {
			granted++
		} else if s.Status != uint32(ntstatus.InsufficientResources) {
			t.Fatalf("LOCK %d: %v", i, ntstatus.Status(s.Status))
		}
	}
	c.want(ntstatus.Success, 50, c.readHeader(fid, 0, 50, 0), nil)
	if n := v.fs.Stats().Locks; n != granted || granted == 0 || granted == 5000 {
		t.Errorf("%d locks of %d that were granted", n, granted)
	}
	c.send(wire.NewSync(fid), nil)
	c.raw([]byte("no message"))
	c.wantCut()
	eventually(t, "the connection is gone", v.deserted)
	if n := v.fs.Stats().Locks; n != granted {
		t.Errorf("%d locks after the end of the connection", n)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	if n := v.fs.Stats().Locks; n != 0 {
		t.Errorf("%d locks after the end of the open", n)
	}
}

// A SETSIZE that is sent again on the next connection is done once, and later sizes stay.
//
// Source: [OP-112] [OP-116]
func TestSizeIsSetOnceAcrossConnections(t *testing.T) {
	v := newEnv(t, envConfig{})
	c := v.callingClient()
	o := v.file("f", []byte("0000"))
	fid := c.register(o)
	first := c.sequence
	c.want(ntstatus.Success, 0, asked(wire.NewSetSize(fid, 2)), nil)
	lost := c.sequence
	c.sequence++ // sent, and never arrived
	next, inherited := c.successor(offerFileCalls)
	if !inherited {
		t.Fatal("the results are missing")
	}
	fid = next.register(o)
	next.want(ntstatus.Success, 0, asked(wire.NewSetSize(fid, 7)), nil)
	if s := next.again(first, asked(wire.NewSetSize(fid, 2)), nil); s.Status != 0 {
		t.Errorf("sent again: %+v", s)
	}
	v.wantContent(o, "00\x00\x00\x00\x00\x00")
	if s := next.again(lost, asked(wire.NewSetSize(fid, 1)), nil); s.Status != 0 {
		t.Errorf("the lost one: %+v", s)
	}
	v.wantContent(o, "0")
	if st := v.e.count.snapshot(); st.Replays != 1 {
		t.Errorf("%d replays", st.Replays)
	}
}

// waitingSyncs returns a disk that does one sync and does not answer, and the client that waits for it and for n other syncs.
func waitingSyncs(t *testing.T, n int) (*gate, *env, *rawClient, uint16) {
	g := newGate(t)
	g.make("f", content(100))
	v := newEnv(t, envConfig{backend: g, limits: Limits{Workers: 1}})
	c := v.callingClient()
	fid := c.register(v.open("f", vfs.ReadData|vfs.WriteData, 0, v.sess))
	g.shut()
	c.send(asked(wire.NewSync(fid)), nil)
	eventually(t, "the first sync", func() bool { return g.waiting() == 1 })
	for range n {
		c.send(asked(wire.NewSync(fid)), nil)
	}
	eventually(t, "the other syncs", func() bool { return v.e.stats().SyncQueue == n })
	return g, v, c, fid
}

// One sync serves all that wait for it. CANCEL ends those that have not begun.
//
// Source: [OP-94b] [OP-116]
func TestSyncsAreGrouped(t *testing.T) {
	const n = 10
	g, v, c, fid := waitingSyncs(t, n)
	g.open()
	for range n + 1 {
		if s := c.reply(); s.Status != 0 {
			t.Error(ntstatus.Status(s.Status))
		}
	}
	if st := v.e.stats(); st.Syncs != 2 || st.FileCalls != n+1 {
		t.Errorf("%d syncs for %d calls", st.Syncs, st.FileCalls)
	}
	g.shut()
	c.send(asked(wire.NewSync(fid)), nil)
	eventually(t, "another sync", func() bool { return g.waiting() == 1 })
	c.send(asked(wire.NewSync(fid)), nil)
	c.send(controlHeader(wire.OpCancel, fid), nil)
	for _, want := range []ntstatus.Status{ntstatus.Cancelled, ntstatus.Success} {
		if s := c.reply(); s.Status != uint32(want) {
			t.Errorf("%v, want %v", ntstatus.Status(s.Status), want)
		}
	}
	g.open()
	if s := c.reply(); s.Status != 0 {
		t.Error(ntstatus.Status(s.Status))
	}
}

// The connection is cut while SYNCs wait for a disk that does not answer: they end, and nothing is left behind.
//
// Source: [OP-116]
func TestCutWhileSyncsWait(t *testing.T) {
	g, v, c, _ := waitingSyncs(t, 4)
	c.raw([]byte("no message"))
	for c.lost == nil {
		c.poll(func(*rdma.Result) bool { return true })
	}
	eventually(t, "the syncs are taken back", func() bool { return v.e.stats().SyncQueue == 0 })
	g.open()
	eventually(t, "the connection is gone", v.deserted)
	if _, err := os.Stat(filepath.Join(g.dir, "f")); err != nil {
		t.Error(err)
	}
}
