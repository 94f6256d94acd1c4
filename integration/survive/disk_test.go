package survive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"lwio"
	"lwio/integration/internal/lossyfs"
	"lwio/integration/internal/sandbox"
	"lwio/integration/internal/supervise"
	"lwio/internal/test/skip"
)

// lossyDisk mounts a disk that fails on demand, and unmounts it after the test and the servers of the
// test have ended.
func lossyDisk(t *testing.T) (*lossyfs.FS, string) {
	t.Helper()
	if !sandbox.Inside() {
		skip.Test(t, "no right to make namespaces")
	}
	dir := t.TempDir()
	disk, err := lossyfs.Mount(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := disk.Unmount(); err != nil {
			t.Error(err)
		}
	})
	return disk, dir
}

// connect connects to a server by a transport. The client is closed with the test.
func connect(t *testing.T, s *supervise.Server, transport string) *lwio.Client {
	t.Helper()
	c, err := lwio.Dial(t.Context(), s.URL(""), new(wires).config(transport))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestErrorsOfTheDiskReachTheCaller has the calls to the disk fail, each with some errors, and
// expects that the call of the client which caused it fails with the same error, and that the file works
// again afterwards.
func TestErrorsOfTheDiskReachTheCaller(t *testing.T) {
	disk, dir := lossyDisk(t)
	s := serve(t, dir)
	ctx := t.Context()
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			c := connect(t, s, transport)
			open := func(name string, flags int) *lwio.File {
				f, err := c.OpenFile(ctx, name, os.O_RDWR|os.O_CREATE|flags, 0)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = f.Close() })
				return f
			}
			plain, through := open("plain-"+transport, 0), open("through-"+transport, os.O_SYNC)
			content := bytes.Repeat([]byte("0123456789abcdef"), 20_000) // several messages
			write := func(f *lwio.File, n int) func() error {
				return func() error {
					_, err := f.WriteAt(content[:n], 0)
					return err
				}
			}
			created := 0
			for _, call := range []struct {
				name   string
				op     lossyfs.Op
				errnos []syscall.Errno
				do     func() error
			}{
				{"short write", lossyfs.Write, []syscall.Errno{syscall.ENOSPC, syscall.EIO, syscall.EROFS, syscall.EDQUOT, syscall.EFBIG}, write(plain, 100)},
				{"long write", lossyfs.Write, []syscall.Errno{syscall.ENOSPC, syscall.EIO}, write(plain, len(content))},
				{"write through", lossyfs.Write, []syscall.Errno{syscall.ENOSPC, syscall.EIO}, write(through, 5000)},
				{"sync of a write through", lossyfs.Sync, []syscall.Errno{syscall.EIO, syscall.ENOSPC}, write(through, 5000)},
				{"sync of a long write through", lossyfs.Sync, []syscall.Errno{syscall.EIO}, write(through, len(content))},
				{"sync", lossyfs.Sync, []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT}, func() error { return plain.Sync(ctx) }},
				{"truncate", lossyfs.Truncate, []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EROFS}, func() error { return plain.Truncate(ctx, 7) }},
				{"create", lossyfs.Create, []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EROFS}, func() error {
					created++
					f, err := c.Create(ctx, fmt.Sprint("new-", transport, created))
					if err == nil {
						err = f.Close()
					}
					return err
				}},
				{"rename", lossyfs.Rename, []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EROFS}, func() error {
					f, err := c.Create(ctx, "old-"+transport)
					if err != nil {
						return err
					}
					return errors.Join(f.Close(), c.Rename(ctx, "old-"+transport, "renamed-"+transport))
				}},
			} {
				for _, errno := range call.errnos {
					disk.Fail(call.op, errno, lossyfs.Always)
					err := call.do()
					disk.Heal()
					want := errno
					if errno == syscall.EDQUOT {
						want = syscall.ENOSPC // SMB has one status for both
					}
					if !errors.Is(err, want) {
						t.Errorf("%s: %v instead of %q", call.name, err, want)
					}
					if err := call.do(); err != nil {
						t.Errorf("%s after %q: %v", call.name, errno, err)
					}
				}
			}
		})
	}
}

// TestReadErrorIsNoEndOfFile has reads of the disk fail at some place. The call returns the bytes before it, and the
// error, over each transport and for each size.
func TestReadErrorIsNoEndOfFile(t *testing.T) {
	disk, dir := lossyDisk(t)
	s := serve(t, dir)
	content := bytes.Repeat([]byte("0123456789abcdef"), 60_000)
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			c := connect(t, s, transport)
			for i, size := range []int{100, 5000, 70_000, len(content)} {
				name := fmt.Sprint("read-", transport, i)
				f, err := c.Create(t.Context(), name)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := f.WriteAt(content, 0); err != nil {
					t.Fatal(err)
				}
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
				if f, err = c.Open(t.Context(), name); err != nil { // the kernel forgets the file
					t.Fatal(err)
				}
				p := make([]byte, size)
				disk.Fail(lossyfs.Read, syscall.EIO, lossyfs.Always)
				n, err := f.ReadAt(p, 0)
				disk.Heal()
				if !errors.Is(err, syscall.EIO) || errors.Is(err, io.EOF) || !bytes.Equal(p[:n], content[:n]) {
					t.Errorf("%d bytes: %d, %v", size, n, err)
				}
				if n, err := f.ReadAt(p, 0); n != size || err != nil || !bytes.Equal(p, content[:size]) {
					t.Errorf("%d bytes of the healed disk: %d, %v", size, n, err)
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestFullDiskSaysHowMuchIsWritten fills the disk in the middle of writes of all sizes. The bytes that a call
// says are written are on the disk.
func TestFullDiskSaysHowMuchIsWritten(t *testing.T) {
	disk, dir := lossyDisk(t)
	s := serve(t, dir)
	content := make([]byte, 1<<20)
	for i := range content {
		content[i] = byte(i * 7 >> 3)
	}
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			c := connect(t, s, transport)
			for i, free := range []int{0, 1, 4096, 100_000, len(content) - 1} {
				f, err := c.Create(t.Context(), fmt.Sprint("full-", transport, i))
				if err != nil {
					t.Fatal(err)
				}
				disk.Limit(disk.Used() + int64(free))
				n, err := f.WriteAt(content, 0)
				if !errors.Is(err, syscall.ENOSPC) || n > free {
					t.Errorf("%d bytes free: %d written, %v", free, n, err)
				}
				disk.Heal()
				p := make([]byte, n)
				if m, err := f.ReadAt(p, 0); m != n || !bytes.Equal(p, content[:n]) {
					t.Errorf("%d bytes free: %d of %d bytes are there, %v", free, m, n, err)
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestSyncErrorIsGivenOnceToEachOpen has the system lose written data before a sync. The sync of each open that
// wrote fails once, and the next one succeeds. An open that writes through has lost nothing.
//
// Source: [OP-92f]
func TestSyncErrorIsGivenOnceToEachOpen(t *testing.T) {
	disk, dir := lossyDisk(t)
	s := serve(t, dir)
	ctx := t.Context()
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			var opens []*lwio.File
			name := "synced-" + transport
			for i := range 3 {
				f, err := connect(t, s, transport).OpenFile(ctx, name, os.O_RDWR|os.O_CREATE, 0)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := f.WriteAt([]byte("data"), int64(i)*4096); err != nil {
					t.Fatal(err)
				}
				opens = append(opens, f)
			}
			disk.FailWriteback()
			for round, want := range []error{syscall.EIO, nil} {
				for i, f := range opens {
					if err := f.Sync(ctx); !errors.Is(err, want) {
						t.Errorf("sync %d of open %d: %v instead of %v", round+1, i+1, err, want)
					}
				}
			}
			for _, f := range opens {
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestSyncErrorOutlivesLossesAndRestarts has the system lose written data before a sync. Each open that wrote gets the
// error at its sync, also if the connection was lost meanwhile, or the server was killed, before or after the error
// was reported to another open. The next sync succeeds.
//
// Source: [OP-92f]
func TestSyncErrorOutlivesLossesAndRestarts(t *testing.T) {
	disk, dir := lossyDisk(t)
	s := serve(t, dir, stateFlags(t, true)...)
	ctx := t.Context()
	kill := func(*visitor) error { return errors.Join(s.Kill(), s.Start()) }
	cut := func(how func(w *wires)) func(v *visitor) error {
		return func(v *visitor) error {
			how(&v.wires)
			return nil
		}
	}
	both := func(w *wires) {
		w.cutRDMA()
		w.cutSMB()
	}
	for name, c := range map[string]struct {
		before func(v *visitor) error // the first sync
		within func(v *visitor) error // before the second open syncs
	}{
		"killed, then reported":   {kill, nil},
		"SMB cut, then reported":  {cut((*wires).cutSMB), nil},
		"RDMA cut, then reported": {cut((*wires).cutRDMA), nil},
		"both cut, then reported": {cut(both), nil},
		"reported, then SMB cut":  {nil, cut((*wires).cutSMB)},
		"reported, then RDMA cut": {nil, cut((*wires).cutRDMA)},
		"reported, then both cut": {nil, cut(both)},
		"reported, then killed":   {nil, kill},
		"killed twice":            {kill, kill},
	} {
		for _, transport := range transports {
			t.Run(name+" "+transport, func(t *testing.T) {
				var opens []*visitor
				file := strings.ReplaceAll(name, " ", "-") + transport
				for range 2 {
					opens = append(opens, visit(t, s, transport, file))
				}
				disk.FailWriteback()
				for i, v := range opens {
					for _, do := range []func(v *visitor) error{c.before, c.within}[i : i+1] {
						if do == nil {
							continue
						}
						if err := do(v); err != nil {
							t.Fatal(err)
						}
					}
					if err := v.f.Sync(ctx); !errors.Is(err, syscall.EIO) {
						t.Errorf("the sync of open %d: %v", i+1, err)
					}
				}
				for i, v := range opens {
					if err := v.f.Sync(ctx); err != nil {
						t.Errorf("the next sync of open %d: %v", i+1, err)
					}
				}
			})
		}
	}
}

// TestFailedWriteThroughReachesOtherOpensAfterRestart has the system lose written data, which it reports to a write of
// an open that writes through. The server is killed. Each other open that wrote gets the error once, at its sync. The
// open that writes through has it already.
//
// Source: [OP-92f]
func TestFailedWriteThroughReachesOtherOpensAfterRestart(t *testing.T) {
	disk, dir := lossyDisk(t)
	s := serve(t, dir, stateFlags(t, true)...)
	ctx := t.Context()
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			name := "through-" + transport
			opens := []*visitor{visit(t, s, transport, name), visit(t, s, transport, name)}
			through, err := connect(t, s, transport).OpenFile(ctx, name, os.O_RDWR|os.O_SYNC, 0)
			if err != nil {
				t.Fatal(err)
			}
			disk.FailWriteback()
			if _, err := through.WriteAt([]byte("data"), 8192); !errors.Is(err, syscall.EIO) {
				t.Errorf("the write: %v", err)
			}
			if err := errors.Join(s.Kill(), s.Start()); err != nil {
				t.Fatal(err)
			}
			for i, v := range opens {
				if err := v.f.Sync(ctx); !errors.Is(err, syscall.EIO) {
					t.Errorf("the sync of open %d: %v", i+1, err)
				}
				if err := v.f.Sync(ctx); err != nil {
					t.Errorf("the next sync of open %d: %v", i+1, err)
				}
			}
			if err := through.Sync(ctx); err != nil {
				t.Errorf("the sync of the open that writes through: %v", err)
			}
		})
	}
}

// TestRebootOfTheHostIsReported restarts the server as after a restart of the host. Data that was acknowledged and not
// synced is not promised then: Sync and Close of each open say so, and so does the file over each transport.
func TestRebootOfTheHostIsReported(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			flags := stateFlags(t, true)
			s := serve(t, t.TempDir(), flags...)
			first, second := visit(t, s, transport, "first"), visit(t, s, transport, "second")
			if err := s.Kill(); err != nil {
				t.Fatal(err)
			}
			reboot(t, flags[1])
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
			if err := first.f.Sync(t.Context()); !errors.Is(err, lwio.ErrStale) {
				t.Errorf("a sync: %v", err)
			}
			for _, v := range []*visitor{first, second} {
				if err := v.f.Close(); !errors.Is(err, lwio.ErrStale) {
					t.Errorf("a close: %v", err)
				}
			}
		})
	}
}

// lossyStore are the files of a disk. The test must not use the mount of its own process.
type lossyStore struct{ disk *lossyfs.FS }

func (l lossyStore) put(name string, content []byte) error {
	l.disk.Put(name, content)
	return nil
}

func (l lossyStore) get(name string) ([]byte, error) { return l.disk.Content(name) }

// TestSyncedWritesOutlivePowerCuts kills the server, and has the disk lose data that was not synced. The
// files have all writes that were synced, or written through, before.
//
// Source: [OP-92f]
func TestSyncedWritesOutlivePowerCuts(t *testing.T) {
	disk, dir := lossyDisk(t)
	s := serve(t, dir)
	work := newTeam(t, s, lossyStore{disk}, new(durations))
	for _, w := range work.members {
		w.ledger.Volatile = w.flags&os.O_SYNC == 0
	}
	work.start()
	for i := range *kills {
		if err := work.progress(3); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rand.N(mostDelay))
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		for _, w := range work.members {
			w.ledger.PowerCut()
		}
		disk.PowerCut()
		if err := work.checkAtRest(lossyStore{disk}); err != nil {
			t.Fatalf("cut %d: %v", i+1, err)
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(work.progress(1), work.end()); err != nil {
		t.Fatal(err)
	}
}

// TestTransactionsOutlivePowerCuts is TestTransactionsOutliveKills on a disk that loses, at each kill, data
// that was not synced.
func TestTransactionsOutlivePowerCuts(t *testing.T) {
	disk, dir := lossyDisk(t)
	s := serve(t, dir)
	for _, c := range databaseCases {
		t.Run(c.mode, func(t *testing.T) {
			d := startDatabase(s, "power-"+c.mode+".db", c.pragma, false, new(durations), c.transports)
			err := d.kill(s, lossyStore{disk}, disk.PowerCut, (*kills+len(databaseCases)-1)/len(databaseCases))
			if err := errors.Join(err, d.end()); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d transactions acknowledged, %d unknown, %d refused",
				d.record.count(acknowledged), d.record.count(inProgress), d.record.count(refused))
		})
	}
}
