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
	randomBlock = 4 << 10
	randomDepth = 32
	randomSpan  = 256 << 20 // the part of the file that is read, so that it stays in the cache
	randomTime  = 3 * time.Second
)

// readerAt is what the random reads are made from.
type readerAt interface {
	ReadAt(p []byte, off int64) (int, error)
}

// randomReads measures reads of 4 KiB at random places, 32 in flight.
func (l *lab) randomReads() error {
	name := filepath.Join(l.share, "random")
	if err := writeFile(name, randomSpan); err != nil {
		return err
	}
	defer os.Remove(name)
	fmt.Printf("\nrandom reads of 4 KiB, %d in flight\n", randomDepth)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "I/Os per s\tclient CPU us per I/O\tserver CPU us per I/O\tmachine CPU us per I/O\t\t")
	for range min(l.rounds, 3) {
		for _, transport := range []string{"pread", "iwarp", "smb"} {
			if err := l.randomOnce(w, name, transport); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}

// randomOnce measures one transport once and prints a row.
func (l *lab) randomOnce(w *tabwriter.Writer, name, transport string) error {
	if err := readAll(name); err != nil {
		return err
	}
	f, closeFile, err := l.openRandom(name, transport)
	if err != nil {
		return err
	}
	server, machine, client := measure.ProcessCPU(l.server.Process.Pid), measure.MachineCPU(), measure.SelfCPU()
	n, took, err := hammer(f)
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

// hammer reads at random places with randomDepth goroutines for randomTime.
func hammer(f readerAt) (int64, time.Duration, error) {
	var n atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	errs := make([]error, randomDepth)
	start := time.Now()
	timer := time.AfterFunc(randomTime, func() { stop.Store(true) })
	defer timer.Stop()
	for i := range randomDepth {
		wg.Go(func() {
			p := make([]byte, randomBlock)
			for !stop.Load() && errs[i] == nil {
				_, errs[i] = f.ReadAt(p, rand.Int64N(randomSpan/randomBlock)*randomBlock)
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
	_, _, err = hammer(f)
	show(fmt.Sprintf("%d idle connections and a busy one", idle))
	err = errors.Join(err, closeFile())
	for _, c := range clients {
		err = errors.Join(err, c.Close())
	}
	return err
}
