package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"lwio"
	"lwio/integration/internal/measure"
)

const (
	randomSpan = 256 << 20 // the part of the file that is read, so that it stays in the cache
	randomTime = 3 * time.Second
)

// load is what is read at a time, in bytes, and by how many at a time.
type load struct{ block, depth int64 }

// readerAt is what the random reads are made from.
type readerAt interface {
	ReadAt(p []byte, off int64) (int, error)
}

// randomReads measures reads at random places: small ones, and large ones.
func (l *lab) randomReads() error {
	name := filepath.Join(l.share, "random")
	if err := writeFile(name, randomSpan); err != nil {
		return err
	}
	defer os.Remove(name)
	for _, work := range []load{{4 << 10, 32}, {1 << 20, 4}} {
		if err := l.randomTable(name, work); err != nil {
			return err
		}
	}
	return nil
}

// randomTable measures one load over each transport.
func (l *lab) randomTable(name string, work load) error {
	fmt.Printf("\nrandom reads of %d KiB, %d in flight\n", work.block>>10, work.depth)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "I/Os per s\tclient CPU us per I/O\tserver CPU us per I/O\tmachine CPU us per I/O\t\t")
	for range min(l.rounds, 3) {
		for _, transport := range []string{"pread", "shm", "iwarp", "smb"} {
			if err := l.randomOnce(w, name, transport, work); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}

// randomOnce measures one transport once and prints a row.
func (l *lab) randomOnce(w *tabwriter.Writer, name, transport string, work load) error {
	if err := readAll(name); err != nil {
		return err
	}
	f, closeFile, err := l.openRandom(name, transport)
	if err != nil {
		return err
	}
	server, machine, client := measure.ProcessCPU(l.server.Process.Pid), measure.MachineCPU(), measure.SelfCPU()
	n, took, err := hammer(f, work)
	if err = errors.Join(err, closeFile()); err != nil {
		return err
	}
	perIO := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(n) }
	_, err = fmt.Fprintf(w, "%.0f\t%.2f\t%.2f\t%.2f\t %s\t\n", float64(n)/took.Seconds(),
		perIO(measure.SelfCPU()-client), perIO(measure.ProcessCPU(l.server.Process.Pid)-server), perIO(measure.MachineCPU()-machine), transport)
	return err
}

// openRandom opens the file, locally or over a transport.
func (l *lab) openRandom(name, transport string) (readerAt, func() error, error) {
	if transport == "pread" {
		f, err := os.Open(name)
		return f, f.Close, err
	}
	ctx := context.Background()
	c, err := lwio.Dial(ctx, l.remote("", "provider="+transport), nil)
	if err != nil {
		return nil, nil, err
	}
	if got := c.Transport().Name; got != transport {
		return nil, nil, errors.Join(fmt.Errorf("the transport is %s, not %s: %s", got, transport, c.Transport().Reason), c.Close())
	}
	f, err := c.Open(ctx, filepath.Base(name))
	if err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	return f, func() error { return errors.Join(f.Close(), c.Close()) }, nil
}

// hammer reads at random places, with a goroutine for each read in flight, for
// randomTime.
func hammer(f readerAt, work load) (int64, time.Duration, error) {
	var n atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	errs := make([]error, work.depth)
	start := time.Now()
	timer := time.AfterFunc(randomTime, func() { stop.Store(true) })
	defer timer.Stop()
	for i := range work.depth {
		wg.Go(func() {
			p := make([]byte, work.block)
			for !stop.Load() && errs[i] == nil {
				_, errs[i] = f.ReadAt(p, rand.Int64N(randomSpan/work.block)*work.block)
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return n.Load(), time.Since(start), errors.Join(errs...)
}

// writeFile makes a file of size bytes.
func writeFile(name string, size int) error {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i * 7 >> 3)
	}
	return os.WriteFile(name, b, 0o644)
}

// memory measures the server with idle connections, and with one busy besides.
func (l *lab) memory() error {
	const idle = 200
	name := filepath.Join(l.share, "random")
	if err := writeFile(name, randomSpan); err != nil {
		return err
	}
	defer os.Remove(name)
	// A fresh server, so that nothing of the other measurements is left.
	if err := errors.Join(l.stopServer(), l.startServer()); err != nil {
		return err
	}
	show := func(what string) {
		fmt.Printf("%8.1f MiB  %s\n", float64(measure.Resident(l.server.Process.Pid))/(1<<20), what)
	}
	fmt.Println("\nmemory of the server (resident)")
	show("no connection")
	var clients []*lwio.Client
	for range idle {
		c, err := lwio.Dial(context.Background(), l.remote("", "provider=iwarp"), &lwio.Config{RequireRDMA: true})
		if err != nil {
			return err
		}
		clients = append(clients, c)
	}
	show(fmt.Sprintf("%d idle connections", idle))
	f, closeFile, err := l.openRandom(name, "iwarp")
	if err != nil {
		return err
	}
	_, _, err = hammer(f, load{4 << 10, 32})
	show(fmt.Sprintf("%d idle connections and a busy one", idle))
	err = errors.Join(err, closeFile())
	for _, c := range clients {
		err = errors.Join(err, c.Close())
	}
	return err
}
