package survive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"lwio"
	"lwio/integration/internal/lossyfs"
)

// await waits for a condition.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("in vain: ", what)
		}
	}
}

// syncHeld begins a sync, whose fsync waits until release. The channel gets the result of the sync.
func syncHeld(t *testing.T, disk *lossyfs.FS, v *visitor) (result chan error, release func()) {
	t.Helper()
	release = disk.HoldSyncs()
	t.Cleanup(release)
	result = make(chan error, 1)
	go func() { result <- v.f.Sync(context.Background()) }()
	await(t, "an fsync begins", func() bool { return disk.HeldSyncs() > 0 })
	return result, release
}

// isCut waits until the client has lost the connections that a test cuts, and has connected to the server by SMB again.
func (v *visitor) isCut(t *testing.T, transport string, rdma, smb bool) {
	t.Helper()
	lost := v.c.Stats().Lost
	if rdma && transport != lwio.TransportSMB {
		v.cutRDMA()
		read := make(chan error, 1)
		go func() { // a request, before which the connection is cut
			_, err := v.f.ReadAt(make([]byte, 1), 0)
			read <- err
		}()
		t.Cleanup(func() {
			if err := <-read; err != nil && !errors.Is(err, io.EOF) { // the data is lost
				t.Errorf("a read: %v", err)
			}
		})
		await(t, "the loss of RDMA", func() bool { return v.c.Stats().Lost > lost })
	}
	if smb {
		v.cutSMB()
		await(t, "another connection of SMB", func() bool {
			v.mu.Lock()
			defer v.mu.Unlock()
			return len(v.smb) > 0
		})
	}
}

// TestSyncErrorOutlivesCutsDuringTheSync has the system lose written data, and cuts the connections of a client while its sync
// is in progress, which fails. The sync is sent again, and has the error, though the second fsync does not fail. So has the sync of
// another open that wrote. Later syncs succeed.
//
// Source: [OP-92f]
func TestSyncErrorOutlivesCutsDuringTheSync(t *testing.T) {
	disk, dir := lossyDisk(t)
	s := serve(t, dir, stateFlags(t, true)...)
	for name, c := range map[string]struct{ rdma, smb bool }{"RDMA cut": {rdma: true}, "SMB cut": {smb: true}, "both cut": {true, true}} {
		for _, transport := range transports {
			t.Run(name+" "+transport, func(t *testing.T) {
				file := strings.ReplaceAll(name, " ", "-") + transport
				first, second := visit(t, s, transport, file), visit(t, s, transport, file)
				disk.FailWriteback()
				result, release := syncHeld(t, disk, first)
				first.isCut(t, transport, c.rdma, c.smb)
				release()
				if err := <-result; !errors.Is(err, syscall.EIO) {
					t.Errorf("the sync whose connection is cut: %v", err)
				}
				if err := second.f.Sync(t.Context()); !errors.Is(err, syscall.EIO) {
					t.Errorf("the sync of the other open: %v", err)
				}
				err := first.f.Sync(t.Context())
				if errors.Is(err, syscall.EIO) && (c.smb || transport != lwio.TransportSMB) { // it can come once more after a cut, see operations.md
					err = first.f.Sync(t.Context())
				}
				if err := errors.Join(err, second.f.Sync(t.Context())); err != nil {
					t.Errorf("the next syncs: %v", err)
				}
			})
		}
	}
}

// TestKillDuringTheSync kills the server while a sync is in progress. On a disk that works the sync succeeds, sent again. If the fsync of
// the killed process fails, the kernel gives the error to no other process: the sync has it or not, and has no
// other. The failure that another open has had before the kill is not lost with it. Then the file works again.
//
// Source: [OP-92f]
func TestKillDuringTheSync(t *testing.T) {
	disk, dir := lossyDisk(t)
	s := serve(t, dir, stateFlags(t, true)...)
	kill := func(t *testing.T, release func()) {
		t.Helper()
		before, killed := s.Times().Killed, make(chan error, 1)
		go func() { killed <- s.Kill() }()
		await(t, "the kill", func() bool { return !s.Times().Killed.Equal(before) })
		release() // a process ends only after its calls of the file system
		if err := errors.Join(<-killed, s.Start()); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		fails, seen bool // the fsync that is killed, and one of another open before
	}{"works": {}, "fails": {fails: true}, "has failed": {seen: true}} {
		for _, transport := range transports {
			t.Run(name+" "+transport, func(t *testing.T) {
				file := fmt.Sprint(strings.ReplaceAll(name, " ", "-"), transport)
				first, second := visit(t, s, transport, file), visit(t, s, transport, file)
				if c.fails || c.seen {
					disk.FailWriteback()
				}
				if c.seen {
					if err := second.f.Sync(t.Context()); !errors.Is(err, syscall.EIO) {
						t.Errorf("the sync before the kill: %v", err)
					}
					other := visit(t, s, transport, file+"-other") // a file whose sync can be killed
					result, release := syncHeld(t, disk, other)
					kill(t, release)
					if err := <-result; err != nil {
						t.Errorf("the sync of another file: %v", err)
					}
					if err := first.f.Sync(t.Context()); !errors.Is(err, syscall.EIO) {
						t.Errorf("the sync of the open that has not had the error: %v", err)
					}
				} else {
					result, release := syncHeld(t, disk, first)
					kill(t, release)
					if err := <-result; err != nil && (!c.fails || !errors.Is(err, syscall.EIO)) {
						t.Errorf("the sync whose server is killed: %v", err)
					}
				}
				err := second.f.Sync(t.Context())
				if err != nil && (!c.fails || !errors.Is(err, syscall.EIO)) {
					t.Errorf("the sync of the other open: %v", err)
				}
				for i, v := range []*visitor{first, second} {
					if err := errors.Join(v.f.Sync(t.Context()), v.uses(7), v.f.Sync(t.Context())); err != nil {
						t.Errorf("the next calls of open %d: %v", i+1, err)
					}
				}
			})
		}
	}
}
