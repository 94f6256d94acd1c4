package main

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	mathrand "math/rand/v2"
)

func main() {
	length := flag.Duration("time", 2*time.Minute, "time of the run")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of the random numbers; the times of faults also depend on the machine")
	dir := flag.String("dir", "", "directory for the files (default: the directory for temporary files)")
	asServer := flag.Bool("serve", false, "be the server's process (the program uses it for itself)")
	flag.Parse()
	var err error
	if *asServer {
		err = serve(*seed, os.Getenv(passwordVariable), flag.Args())
	} else {
		err = run(*length, *seed, *dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

const (
	rounds   = 8
	sessions = 5 // at a time
)

// soak is one run of the program.
type soak struct {
	seed   uint64
	host   *host
	files  [][]*file // of each share
	counts counts

	watch watch
	fail  context.CancelCauseFunc // ends the context of all sessions
	pairs atomic.Uint64           // fault providers and scratch files made
}

// counts are the operations so far.
type counts struct {
	sessions, reads, writes, bytes, left, uncertain, syncs, opens, lost, replayed, pauses atomic.Uint64
}

func (c *counts) String() string {
	return fmt.Sprintf("%d sessions, %d opens, %d reads, %d writes, %d MiB, %d calls left, %d writes uncertain, %d syncs, %d connections lost, %d writes sent again, %d pauses",
		c.sessions.Load(), c.opens.Load(), c.reads.Load(), c.writes.Load(), c.bytes.Load()>>20, c.left.Load(), c.uncertain.Load(),
		c.syncs.Load(), c.lost.Load(), c.replayed.Load(), c.pauses.Load())
}

// run does all rounds and compares the footprints.
func run(length time.Duration, seed uint64, dir string) (err error) {
	fmt.Printf("soak: %v, seed %d, %d rounds of %d sessions at a time\n", length, seed, rounds, sessions)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	s := &soak{seed: seed, fail: fail}
	if s.host, err = newHost(seed, rand.Text(), dir); err != nil {
		return err
	}
	defer func() {
		if e := s.host.close(); err == nil {
			err = e
		}
	}()
	s.watch.start(s.host)
	defer s.watch.stop()
	if err := s.furnish(ctx); err != nil {
		return err
	}
	var own, server []footprint
	for i := range rounds {
		if err := s.round(ctx, i, length/rounds); err != nil {
			return fmt.Errorf("round %d, seed %d: %w", i+1, seed, err)
		}
		mine, err := settledFootprint()
		if err != nil {
			return err
		}
		its, err := s.host.footprint()
		if err != nil {
			return err
		}
		own, server = append(own, mine), append(server, its)
		fmt.Printf("round %d: %v\n  client: %v\n  server: %v\n", i+1, &s.counts, mine, its)
	}
	if err := grown("client", own); err != nil {
		return err
	}
	return grown("server", server)
}

// round runs sessions for a time, and then reads all files.
func (s *soak) round(ctx context.Context, number int, length time.Duration) error {
	over, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var wg sync.WaitGroup
	for i := range sessions {
		wg.Go(func() {
			r := mathrand.New(mathrand.NewPCG(s.seed, uint64(number*sessions+i)))
			for over.Err() == nil {
				if err := s.session(over, r); err != nil {
					s.fail(err)
				}
			}
		})
	}
	wg.Go(func() { s.pause(over, mathrand.New(mathrand.NewPCG(^s.seed, uint64(number)))) })
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.verify(ctx)
}

// pause stops the server's process at random times.
func (s *soak) pause(over context.Context, r *mathrand.Rand) {
	for {
		select {
		case <-over.Done():
			return
		case <-time.After(time.Duration(500+r.IntN(3000)) * time.Millisecond):
		}
		s.counts.pauses.Add(1)
		s.host.signal(syscall.SIGSTOP)
		time.Sleep(time.Duration(20+r.IntN(500)) * time.Millisecond)
		s.host.signal(syscall.SIGCONT)
	}
}
