package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"lwio"
	"lwio/integration/internal/ledger"
	"lwio/rdma"
	"lwio/rdma/rdmatest/fault"
)

const (
	filesPerShare = 3
	partsPerFile  = 8
	partBlocks    = 256
	partSize      = partBlocks * ledger.BlockSize
)

// file is a file that all sessions use.
type file struct {
	name  string
	share int
	parts []*ledger.Ledger
}

// furnish makes the files.
func (s *soak) furnish(ctx context.Context) error {
	for i, share := range shares {
		c, err := lwio.Dial(ctx, urlOf(s.host.addr, s.host.password, share, lwio.TransportSMB), nil)
		if err != nil {
			return err
		}
		var files []*file
		for j := range filesPerShare {
			f := &file{name: fmt.Sprint("file", j), share: i}
			content := make([]byte, partsPerFile*partSize)
			number := uint32(i*filesPerShare + j)
			ledger.Fill(content, number, 0, 0)
			for k := range partsPerFile {
				f.parts = append(f.parts, ledger.New(number, k*partBlocks, partBlocks))
			}
			if err := put(ctx, c, f.name, content); err != nil {
				return errors.Join(err, c.Close())
			}
			files = append(files, f)
		}
		s.files = append(s.files, files)
		if err := c.Close(); err != nil {
			return err
		}
	}
	return nil
}

// put makes a file with a content.
func put(ctx context.Context, c *lwio.Client, name string, content []byte) error {
	f, err := c.Create(ctx, name)
	if err != nil {
		return err
	}
	_, err = f.WriteAtContext(ctx, content, 0)
	return errors.Join(err, f.Close())
}

// providers are the transports of sessions; a repeated one is more frequent.
var providers = []string{"shm", "shm", "iwarp", "iwarp", lwio.TransportSMB}

// dial connects over a random transport.
func (s *soak) dial(r *rand.Rand, share int) (*lwio.Client, string, error) {
	name := providers[r.IntN(len(providers))]
	cfg := &lwio.Config{Completion: lwio.CompletionMode(r.IntN(3)), Credits: 1 + r.IntN(64), SMBOnly: name == lwio.TransportSMB, Timeout: time.Minute}
	for _, p := range lwio.DefaultProviders() {
		if p.Name() == name {
			decide := spared(fault.Random(s.seed^s.pairs.Add(1), chances))
			cfg.Providers = []rdma.Provider{fault.Wrap(p, &fault.Config{Fault: decide})}
		}
	}
	var c *lwio.Client
	err := s.watch.do("dial", func() (err error) {
		c, err = lwio.Dial(context.Background(), urlOf(s.host.addr, s.host.password, shares[share], ""), cfg)
		return err
	})
	return c, name, err
}

// session connects, uses files from several goroutines, and closes the client.
func (s *soak) session(over context.Context, r *rand.Rand) error {
	share := r.IntN(len(shares))
	c, transport, err := s.dial(r, share)
	if err != nil {
		return err
	}
	s.counts.sessions.Add(1)
	var wg sync.WaitGroup
	errs := make([]error, 1+r.IntN(4))
	for i := range errs {
		u := &usage{s: s, c: c, transport: transport, r: rand.New(rand.NewPCG(r.Uint64(), 0)), file: s.files[share][r.IntN(filesPerShare)]}
		u.scratch = fmt.Sprintf("scratch-%d-%d", s.pairs.Add(1), i)
		wg.Go(func() { errs[i] = u.run(over) })
	}
	wg.Wait()
	st := c.Stats()
	s.counts.lost.Add(st.Lost)
	s.counts.replayed.Add(st.ReplayedWrites)
	errs = append(errs, s.watch.do("close client", c.Close))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: %w; %+v", transport, err, st)
	}
	return nil
}

// verify reads all files over each transport, while no session runs.
func (s *soak) verify(ctx context.Context) error {
	for i, share := range shares {
		for _, provider := range []string{"shm", "iwarp", lwio.TransportSMB} {
			c, err := lwio.Dial(ctx, urlOf(s.host.addr, s.host.password, share, provider), nil)
			if err != nil {
				return err
			}
			for _, f := range s.files[i] {
				if err := f.verify(ctx, c); err != nil {
					return errors.Join(fmt.Errorf("at rest, over %s: %w", provider, err), c.Close())
				}
			}
			list, err := c.ReadDir(ctx, ".")
			if len(list) != filesPerShare && err == nil {
				err = fmt.Errorf("share %s has %d files: %v", share, len(list), list)
			}
			if err := errors.Join(err, c.Close()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *file) verify(ctx context.Context, c *lwio.Client) error {
	h, err := c.OpenFile(ctx, f.name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer h.Close()
	p := make([]byte, partSize)
	for _, l := range f.parts {
		v := l.View(0, partBlocks)
		if _, err := h.ReadAtContext(ctx, p, int64(l.First)*ledger.BlockSize); err != nil {
			return err
		}
		if err := l.Check(v, p, 0); err != nil {
			return err
		}
	}
	return nil
}
