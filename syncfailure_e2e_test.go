package lwio_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"lwio"
	"lwio/internal/test/faultconn"
	"lwio/lwiotest"
	"lwio/rdma"
	"lwio/rdma/rdmatest/fault"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// failingSyncs is a backend of files whose syncs a test lets fail.
type failingSyncs struct {
	vfs.Backend
	sync func() error
}

func (d *failingSyncs) Open(path string, how vfs.HandleMode) (vfs.Handle, error) {
	h, err := d.Backend.Open(path, how)
	if err != nil {
		return nil, err
	}
	return failingSync{h, d}, nil
}

type failingSync struct {
	vfs.Handle
	d *failingSyncs
}

func (f failingSync) Sync() error {
	if err := f.d.sync(); err != nil {
		return err
	}
	return f.Handle.Sync()
}

// syncFailure is a client whose connections the test cuts, and a file with a write, at a server with failing syncs.
type syncFailure struct {
	t    *testing.T
	s    *lwiotest.Server
	c    *lwio.Client
	f    *lwio.File
	link *faultconn.Link

	cuts  atomic.Bool // the next operation of the RDMA connection cuts it
	reads sync.WaitGroup
}

// onSyncFailures runs a test over SMB and each provider. onSync is called at each sync of a file.
func onSyncFailures(t *testing.T, onSync func() error, run func(k *syncFailure)) {
	onSyncFailuresWith(t, 1, onSync, run)
}

// onSyncFailuresWith is onSyncFailures for a client with several RDMA connections.
func onSyncFailuresWith(t *testing.T, connections int, onSync func() error, run func(k *syncFailure)) {
	for _, name := range append([]string{"smb"}, providerNames()...) {
		t.Run(name, func(t *testing.T) {
			k := &syncFailure{t: t, link: new(faultconn.Link)}
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, "f"), random(1000, 1), 0o600))
			disk, err := posix.OpenDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			k.s = lwiotest.NewServer(t, &lwiotest.Config{Backend: &failingSyncs{disk, onSync}})
			cfg := lwio.Config{SMBOnly: name == "smb", Connections: connections}
			for _, p := range lwio.DefaultProviders() {
				if p.Name() == name {
					cfg.Providers = []rdma.Provider{fault.Wrap(p, &fault.Config{Fault: k.fate})}
				}
			}
			k.c = clientOn(k.s, k.link, cfg)
			k.f = openRW(t, k.c)
			if _, err := k.f.WriteAt([]byte("x"), 0); err != nil {
				t.Fatal(err)
			}
			run(k)
			k.reads.Wait()
		})
	}
}

// providerNames returns the names of the providers of a default client.
func providerNames() (names []string) {
	for _, p := range lwio.DefaultProviders() {
		names = append(names, p.Name())
	}
	return names
}

func (k *syncFailure) fate(fault.Attempt) fault.Action {
	if k.cuts.Load() && k.cuts.Swap(false) {
		return fault.Cut()
	}
	return fault.Pass()
}

// cut breaks the connection that syncs go over.
func (k *syncFailure) cut() {
	if !k.c.Transport().RDMA() {
		k.link.Cut()
		return
	}
	lost := k.c.Stats().Lost
	k.cuts.Store(true)
	k.reads.Go(func() { // waits for the next connection, which waits for a sync in progress
		if _, err := k.f.ReadAt(make([]byte, 4), 0); err != nil {
			k.t.Error(err)
		}
	})
	eventually(k.t, func() bool { return k.c.Stats().Lost > lost })
}

// want syncs the file, and checks the result.
func (k *syncFailure) want(what string, want error) {
	k.t.Helper()
	if err := k.f.Sync(k.t.Context()); !errors.Is(err, want) {
		k.t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// heldFailure is the failure of the first sync of a file, which waits for the test.
type heldFailure struct {
	tokens chan struct{} // has a token until the first sync begins
	began  chan struct{} // receives when it begins
	fail   chan struct{} // is sent to for its end
}

func newHeldFailure() *heldFailure {
	return &heldFailure{tokens: make(chan struct{}, 1), began: make(chan struct{}), fail: make(chan struct{})}
}

func (h *heldFailure) sync() error {
	select {
	case <-h.tokens:
		h.began <- struct{}{}
		<-h.fail
		return syscall.EIO
	default:
		return nil
	}
}

// A sync that its caller gives up fails later. The next sync waits for that, and has the failure.
//
// Source: [OP-92f], [OP-116]
func TestFailureOfGivenUpSyncIsGivenToTheNext(t *testing.T) {
	h := newHeldFailure()
	onSyncFailures(t, h.sync, func(k *syncFailure) {
		h.tokens <- struct{}{}
		ctx, cancel := context.WithCancel(k.t.Context())
		first, next := make(chan error), make(chan error)
		go func() { first <- k.f.Sync(ctx) }()
		<-h.began
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			k.t.Errorf("the sync that is given up: %v", err)
		}
		short, end := context.WithCancel(k.t.Context())
		end()
		if err := k.f.Sync(short); !errors.Is(err, context.Canceled) {
			k.t.Errorf("a sync without time: %v", err)
		}
		go func() { next <- k.f.Sync(k.t.Context()) }()
		h.fail <- struct{}{}
		if err := <-next; !errors.Is(err, syscall.EIO) {
			k.t.Errorf("the next sync: %v", err)
		}
		k.want("after the failure", nil)
		k.cut()
		k.want("over the next connection", nil)
	})
}

// The disk goes on to fail after a sync that its caller has given up. The next sync has the failure, and the one after it
// does not have it again.
//
// Source: [OP-92f], [OP-116]
func TestFailureOfGivenUpSyncIsGivenOnce(t *testing.T) {
	h := newHeldFailure()
	var again atomic.Bool // the request that confirms the failure fails too
	onSync := func() error {
		if again.Swap(false) {
			return syscall.EIO
		}
		err := h.sync()
		again.Store(err != nil)
		return err
	}
	onSyncFailures(t, onSync, func(k *syncFailure) {
		h.tokens <- struct{}{}
		ctx, cancel := context.WithCancel(k.t.Context())
		first := make(chan error)
		go func() { first <- k.f.Sync(ctx) }()
		<-h.began
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			k.t.Errorf("the sync that is given up: %v", err)
		}
		h.fail <- struct{}{}
		k.want("the next sync", syscall.EIO)
		k.want("the one after it", nil)
	})
}

// The connection of a sync is lost while the sync fails. It is sent again before that, and has the failure.
//
// Source: [OP-92f], [OP-116]
func TestFailureOfLostSyncIsGivenToItsRepetition(t *testing.T) {
	h := newHeldFailure()
	onSyncFailures(t, h.sync, func(k *syncFailure) {
		flushes := make(chan struct{}, 100)
		k.link.Judge(func(command uint16) faultconn.Fate {
			if command == smbFlush {
				flushes <- struct{}{}
			}
			return faultconn.Pass
		})
		h.tokens <- struct{}{}
		result := make(chan error, 1)
		go func() { result <- k.f.Sync(k.t.Context()) }()
		<-h.began
		if !k.c.Transport().RDMA() {
			<-flushes
		}
		k.cut()
		<-flushes
		h.fail <- struct{}{}
		if err := <-result; !errors.Is(err, syscall.EIO) {
			k.t.Errorf("the sync: %v", err)
		}
		k.want("after the failure", nil)
	})
}

// Any failure of the disk is given once, also if another connection carries the next sync.
//
// Source: [OP-92f], [OP-116]
func TestEachFailureOfSyncIsGivenOnce(t *testing.T) {
	for _, failure := range []error{syscall.EIO, syscall.ENOSPC, syscall.EROFS} {
		t.Run(failure.Error(), func(t *testing.T) {
			var fails atomic.Bool
			onSync := func() error {
				if fails.Swap(false) {
					return failure
				}
				return nil
			}
			onSyncFailures(t, onSync, func(k *syncFailure) {
				fails.Store(true)
				k.want("the sync", failure)
				k.cut()
				k.want("over the next connection", nil)
			})
		})
	}
}

// The request after a failure fails too. The next Sync reports that if data was written in between, and not otherwise.
//
// Source: [OP-92f], [OP-116]
func TestDataWrittenDuringAFailingSyncIsReported(t *testing.T) {
	for _, written := range []bool{false, true} {
		t.Run(fmt.Sprintf("written %t", written), func(t *testing.T) {
			var fails atomic.Int32
			var write func()
			onSync := func() error {
				switch n := fails.Add(-1); {
				case n < 0:
					return nil
				case n == 1 && written:
					write()
				}
				return syscall.EIO
			}
			onSyncFailures(t, onSync, func(k *syncFailure) {
				write = func() {
					if _, err := k.f.WriteAt([]byte("y"), 1); err != nil {
						t.Error(err)
					}
				}
				fails.Store(2)
				k.want("the sync", syscall.EIO)
				if written {
					k.want("the sync of the other data", syscall.EIO)
				}
				k.want("the last sync", nil)
			})
		})
	}
}

// A failure of the disk is given once, also if the next sync goes over another connection of the client.
//
// Source: [OP-92f], [OP-116]
func TestFailureOfSyncIsGivenOnceWithSeveralConnections(t *testing.T) {
	var fails atomic.Bool
	onSync := func() error {
		if fails.Swap(false) {
			return syscall.EIO
		}
		return nil
	}
	onSyncFailuresWith(t, 2, onSync, func(k *syncFailure) {
		ctx, stop := context.WithCancel(k.t.Context())
		for range 8 { // so that the connection with the fewest requests changes
			k.reads.Go(func() {
				for ctx.Err() == nil {
					if _, err := k.f.ReadAt(make([]byte, 900), 0); err != nil {
						k.t.Error(err)
						return
					}
				}
			})
		}
		defer stop()
		for i := 0; i < 50 && !k.t.Failed(); i++ {
			fails.Store(true)
			k.want("the sync", syscall.EIO)
			k.want("the next one", nil)
		}
	})
}
