package main

import (
	"context"
	"io"
	"path/filepath"
	"sync/atomic"
	"testing"

	"lwio"
	"lwio/internal/test/faultconn"
	"lwio/lwiotest"
	"lwio/rdma"
	"lwio/rdma/rdmatest/fault"
)

// cutTree is a tree whose sources and destinations call cut at some of their chunks.
type cutTree struct {
	tree
	cut func()
}

func (c cutTree) Open(ctx context.Context, name string) (fileSource, error) {
	f, err := c.tree.Open(ctx, name)
	return &cutSource{fileSource: f, cut: c.cut}, err
}

// cutSource calls cut before every third chunk.
type cutSource struct {
	fileSource
	cut func()
	n   atomic.Int32
}

func (s *cutSource) ReadChunk(ctx context.Context, p []byte, off int64) (int, error) {
	if s.n.Add(1)%3 == 0 {
		s.cut()
	}
	return s.fileSource.ReadChunk(ctx, p, off)
}

// A copy goes on over losses of SMB, of RDMA and of both, in each direction, and --verify finds no
// difference.
func TestCopyGoesOnOverLosses(t *testing.T) {
	for _, p := range lwio.DefaultProviders() {
		for loss, of := range map[string]struct{ smb, rdma bool }{"SMB": {true, false}, "RDMA": {false, true}, "both": {true, true}} {
			t.Run(p.Name()+" without "+loss, func(t *testing.T) {
				s, link := lwiotest.NewServer(t, nil), new(faultconn.Link)
				var cutRDMA atomic.Bool
				decide := func(fault.Attempt) fault.Action {
					if cutRDMA.Load() && cutRDMA.Swap(false) {
						return fault.Cut()
					}
					return fault.Pass()
				}
				c := s.Client(&lwio.Config{
					RequireRDMA: true, Providers: []rdma.Provider{fault.Wrap(p, &fault.Config{Fault: decide})}, DialContext: link.DialContext,
				})
				cut := func() {
					cutRDMA.Store(of.rdma)
					if of.smb {
						link.Cut()
					}
				}
				target, err := lwio.ParseURL(s.URL())
				if err != nil {
					t.Fatal(err)
				}
				remote, dir := remoteTree{c, target}, t.TempDir()
				data := randomBytes(8*chunkSize + 77)
				write(t, data, dir, "f")
				j := &copyJob{opts: cpOptions{verify: true}, bar: newProgress(io.Discard)}
				if _, err := j.file(t.Context(), cutTree{localTree{}, cut}, filepath.Join(dir, "f"), remote, "up"); err != nil {
					t.Error(err)
				}
				if _, err := j.file(t.Context(), cutTree{remote, cut}, "up", localTree{}, filepath.Join(dir, "down")); err != nil {
					t.Error(err)
				}
				wantFile(t, filepath.Join(s.Dir, "up"), data)
				wantFile(t, filepath.Join(dir, "down"), data)
				if st := c.Stats(); of.smb != (st.SMBReconnects > 0) || of.rdma != (st.Reconnects > 0) {
					t.Errorf("%d reconnects of SMB, %d of RDMA", st.SMBReconnects, st.Reconnects)
				}
			})
		}
	}
}
