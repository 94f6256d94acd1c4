package smbshare_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"lwio/internal/client/smbshare"
	"lwio/lwiotest"
	"lwio/vfs"
	"lwio/vfs/posix"
)

// slowToClose is a backend whose files are closed once open is closed. closing has a value for each close.
type slowToClose struct {
	vfs.Backend
	closing chan struct{}
	open    chan struct{}
}

func (b slowToClose) Create(path string, how vfs.HandleMode, readOnly bool) (vfs.Handle, error) {
	h, err := b.Backend.Create(path, how, readOnly)
	if err != nil {
		return nil, err
	}
	return slowFile{h, b}, nil
}

type slowFile struct {
	vfs.Handle
	of slowToClose
}

func (f slowFile) Close() error {
	f.of.closing <- struct{}{}
	<-f.of.open
	return f.Handle.Close()
}

// The close of a file returns when the server has closed it, also if the maintainer reclaims and closes the file
// at the same time.
func TestCloseWaitsForTheServer(t *testing.T) {
	const files = 12
	dir, err := posix.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	disk := slowToClose{dir, make(chan struct{}, files), make(chan struct{})}
	s := lwiotest.NewServer(t, &lwiotest.Config{Backend: disk})
	sess, raw, err := signIn(t, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	var list []smbshare.Handle
	for i := range files {
		list = append(list, create(t, sess, fmt.Sprint("f", i)))
	}
	if err := raw.Close(); err != nil {
		t.Fatal(err)
	}
	var over sync.WaitGroup
	var early, allowed atomic.Int64
	for _, h := range list {
		over.Go(func() {
			if err := h.Close(t.Context()); err != nil {
				t.Error(err)
			}
			early.Add(1 - allowed.Load())
		})
	}
	for range list {
		<-disk.closing
	}
	if err := sess.Mkdir(t.Context(), "d"); err != nil { // the calls had time to return
		t.Fatal(err)
	}
	allowed.Store(1)
	close(disk.open)
	over.Wait()
	if n := early.Load(); n > 0 {
		t.Errorf("%d calls returned before the file was closed", n)
	}
}
